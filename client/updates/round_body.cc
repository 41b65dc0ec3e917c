#include "client/updates/round_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/exchange/scale.h"
#include "ringwood/v1/updates.pb.h"
#include "sparse/codec.h"

namespace ringwood {
namespace {

constexpr Codec kCodec = {IndexCode::kBlock16, ValueCode::kFloat32};
constexpr size_t kSizeBytes = sizeof(uint64_t);  // before the head: how long it is

Buffer<std::byte> Encoded(const Entries& entries, uint64_t elements, uint64_t* bytes) {
  Buffer<std::byte> wire(MaxWireBytes(kCodec, elements, entries.size()));
  *bytes = Encode(kCodec, {0, elements}, entries, wire.span());
  return wire;
}

// A tensor of a body that was checked.
struct ReadTensor {
  const Tensor* tensor = nullptr;
  v1::RoundBody::Form form = {};
  std::span<const std::byte> data;
  Entries entries;
};

StatusOr<ReadTensor> Check(const v1::RoundBody::Tensor& listed, std::span<const std::byte> data,
                           const TensorsById& tensors) {
  if (listed.id() >= tensors.size()) {
    return Invalid(absl::StrFormat("it brings tensor %d of %d", listed.id(), tensors.size()));
  }
  ReadTensor read{tensors[listed.id()], listed.form(), data};
  const std::string& name = read.tensor->spec.name;
  const uint64_t elements = read.tensor->spec.elements;
  if (listed.elements() != elements) {
    return Invalid(absl::StrFormat("tensor '%s' had %d elements and has %d", name,
                                   listed.elements(), elements));
  }
  if (read.tensor->device) return Invalid("tensor '" + name + "' is on a device");
  if (listed.form() == v1::RoundBody::FORM_ENTRIES) {
    if (listed.entries() > elements) return Corrupt("tensor '" + name + "' has too many entries");
    RW_RETURN_IF_ERROR(Decode(kCodec, {0, elements}, listed.entries(), data, &read.entries));
  } else if (data.size() != elements * sizeof(float)) {
    return Corrupt(absl::StrFormat("tensor '%s' has %d bytes", name, data.size()));
  }
  return read;
}

// The same arithmetic as the exchanges' Apply.
void Write(const ReadTensor& read, double total_weight) {
  const std::span<float> out = read.tensor->gradient();
  if (read.form == v1::RoundBody::FORM_ENTRIES) {
    std::fill(out.begin(), out.end(), 0.0f);
    for (size_t i = 0; i < read.entries.size(); ++i) {
      const double average = total_weight == 0 ? 0 : read.entries.value[i] / total_weight;
      out[read.entries.index[i]] = static_cast<float>(average);
    }
    return;
  }
  std::memcpy(out.data(), read.data.data(), read.data.size());
  if (read.form == v1::RoundBody::FORM_SUM) DivideInto(out, total_weight, out);
}

}  // namespace

StatusOr<RoundBody> RoundBody::Of(const TensorsById& tensors, const Sums& sums,
                                  const RoundFacts& facts) {
  RoundBody body;
  body.parts_.resize(1);  // the head
  v1::RoundBody head;
  head.set_total_weight(facts.total_weight);
  head.set_skipped(facts.skipped);
  head.set_note(facts.note);
  head.mutable_members()->Assign(facts.members.begin(), facts.members.end());
  head.mutable_contributors()->Assign(facts.contributors.begin(), facts.contributors.end());
  for (size_t id = 0; !facts.skipped && id < tensors.size(); ++id) {
    const std::optional<TensorSum> sum = sums(id);
    if (!sum) {
      return Refused("tensor '" + tensors[id]->spec.name +
                     "' is on a device, whose rounds cannot be logged yet");
    }
    v1::RoundBody::Tensor* const listed = head.add_tensors();
    listed->set_id(static_cast<uint32_t>(id));
    listed->set_elements(tensors[id]->spec.elements);
    std::span<const std::byte> part = std::as_bytes(sum->dense);
    if (sum->sparse) {
      uint64_t bytes = 0;
      body.owned_.push_back(Encoded(*sum->sparse, tensors[id]->spec.elements, &bytes));
      part = std::as_const(body.owned_.back()).span().first(bytes);
      listed->set_entries(sum->sparse->size());
    }
    listed->set_form(sum->sparse    ? v1::RoundBody::FORM_ENTRIES
                     : sum->average ? v1::RoundBody::FORM_AVERAGE
                                    : v1::RoundBody::FORM_SUM);
    listed->set_bytes(part.size());
    body.parts_.push_back(part);
  }
  const uint64_t size = head.ByteSizeLong();
  Buffer<std::byte> first(kSizeBytes + size);
  std::memcpy(first.data(), &size, kSizeBytes);
  head.SerializeToArray(first.data() + kSizeBytes, static_cast<int>(size));
  body.owned_.push_back(std::move(first));
  body.parts_.front() = std::as_const(body.owned_.back()).span();
  return body;
}

uint64_t RoundBody::bytes() const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part.size();
  return bytes;
}

void RoundBody::ForEachPiece(
    const std::function<bool(uint64_t, std::span<const std::byte>, bool)>& take) const {
  const uint64_t all = bytes();
  std::vector<std::byte> piece;
  piece.reserve(std::min(all, kPieceBytes));
  uint64_t offset = 0;  // of the piece
  for (std::span<const std::byte> part : parts_) {
    while (!part.empty()) {
      const size_t taken = std::min<size_t>(part.size(), kPieceBytes - piece.size());
      piece.insert(piece.end(), part.begin(), part.begin() + taken);
      part = part.subspan(taken);
      const bool last = offset + piece.size() == all;
      if (piece.size() < kPieceBytes && !last) continue;
      if (!take(offset, piece, last)) return;
      offset += piece.size();
      piece.clear();
    }
  }
}

StatusOr<RoundFacts> ReadRound(uint64_t step, std::span<const std::byte> body,
                               const TensorsById& tensors) {
  const auto wrong = [step](const Status& why) {
    return Annotate(why, absl::StrFormat("the logged round of step %d", step));
  };
  uint64_t size = 0;
  if (body.size() < kSizeBytes) return wrong(Corrupt("it is cut short"));
  std::memcpy(&size, body.data(), kSizeBytes);
  body = body.subspan(kSizeBytes);
  v1::RoundBody head;
  if (size > body.size() || !head.ParseFromArray(body.data(), static_cast<int>(size))) {
    return wrong(Corrupt("its head cannot be read"));
  }
  body = body.subspan(size);
  std::vector<ReadTensor> reads;
  for (const v1::RoundBody::Tensor& listed : head.tensors()) {
    if (listed.bytes() > body.size()) return wrong(Corrupt("it is cut short"));
    auto read = Check(listed, body.first(listed.bytes()), tensors);
    if (!read.ok()) return wrong(read.status());
    reads.push_back(*std::move(read));
    body = body.subspan(listed.bytes());
  }
  if (!body.empty()) return wrong(Corrupt("it has bytes that nothing names"));
  if (!head.skipped() && reads.size() != tensors.size()) {
    return wrong(Invalid(
        absl::StrFormat("it brings %d tensors, registered are %d", reads.size(), tensors.size())));
  }
  for (const ReadTensor& read : reads) Write(read, head.total_weight());
  return RoundFacts{step,
                    head.skipped(),
                    head.total_weight(),
                    {head.members().begin(), head.members().end()},
                    {head.contributors().begin(), head.contributors().end()},
                    head.note()};
}

}  // namespace ringwood
