// Why Store.Await was answered before the checkpoint was over; any other reason is how it failed.
#pragma once

namespace ringwood {

inline constexpr char kStripesMissing[] = "not all ranks' stripes are there yet";

}  // namespace ringwood
