#include "transport/frame.h"

#include <cstring>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

const char* NameOfLane(Lane lane) {
  switch (lane) {
    case Lane::kDense:
      return "dense";
    case Lane::kSparse:
      return "sparse";
    case Lane::kImmediate:
      return "immediate";
    case Lane::kTotals:
      return "totals";
    case Lane::kState:
      return "state";
  }
  return "unknown lane";
}

}  // namespace

StatusOr<Frame> ParseFrame(std::span<const std::byte> header) {
  if (header.size() != sizeof(Frame)) {
    return Corrupt(
        absl::StrFormat("a frame of %d bytes arrived, expected %d: is another program "
                        "sending to this port?",
                        header.size(), sizeof(Frame)));
  }
  Frame frame;
  std::memcpy(&frame, header.data(), sizeof frame);
  if (frame.magic != kFrameMagic) {
    return Corrupt(
        absl::StrFormat("a frame starts with %#x instead of %#x: the sender speaks "
                        "another version of the data plane",
                        frame.magic, kFrameMagic));
  }
  return frame;
}

MessageName NameOf(const Frame& frame) {
  return {static_cast<Lane>(frame.lane), frame.round, frame.group, frame.chunk, frame.slot};
}

Content ContentOf(const Frame& frame) {
  return {frame.type,
          frame.codec,
          frame.count,
          {frame.whole, static_cast<ReduceOp>(frame.op), frame.about}};
}

std::string ToString(const MessageName& name) {
  return absl::StrFormat("%s round %d group %d chunk %d slot %d", NameOfLane(name.lane), name.round,
                         name.group, name.chunk, name.slot);
}

}  // namespace ringwood
