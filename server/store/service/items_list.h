// The streams that list what a rank can load of a checkpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/calls/streams.h"
#include "server/store/record/manifest.h"

namespace ringwood {

class ItemsList {
 public:
  using Opened = std::shared_ptr<const OpenedCheckpoint>;
  using Find = std::function<StatusOr<Opened>(const CheckpointId& wanted)>;  // on the loop

  // A caller comes. Any thread; everything else happens on the loop.
  static OutStream<v1::ItemsPart>* Open(Loop* loop, const v1::ItemsRequest& request, Find find);

 private:
  using Stream = OutStream<v1::ItemsPart>;

  ItemsList(const v1::ItemsRequest& request, Find find)
      : request_(request), find_(std::move(find)) {}
  void Continue(Stream* stream);

  const v1::ItemsRequest request_;
  const Find find_;
  Opened opened_;
  std::vector<const v1::StoredItem*> items_;
  size_t next_ = 0;
  bool sent_last_ = false;
};

}  // namespace ringwood
