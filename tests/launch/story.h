// What the stories of an attempt are told with: the time in seconds, and how processes end.
#pragma once

#include <gtest/gtest.h>

#include "launch/supervision/supervisor.h"
#include "tests/base/at.h"

namespace ringwood {

inline constexpr Ending kGood{0, 0, false};
inline constexpr Ending kBug{1, 0, false};
inline constexpr Ending kPeerDied{75, 0, false};
inline constexpr Ending kBadInput{78, 0, false};
inline constexpr Ending kKilled{137, 9, false};
inline constexpr Ending kTermed{143, 15, false};

// The last event of an attempt with two servers.
inline void EndServers(Supervisor* supervisor, double at) {
  supervisor->Ended(0, kGood, At(at));
  supervisor->Ended(1, kGood, At(at));
  EXPECT_TRUE(supervisor->done());
}

}  // namespace ringwood
