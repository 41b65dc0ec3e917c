#include "client/updates/round_body.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/exchange/gradient.h"
#include "client/exchange/scale.h"
#include "ringwood/v1/updates.pb.h"
#include "sparse/codec.h"

namespace ringwood {
namespace {

constexpr Codec kCodec = {IndexCode::kBlock16, ValueCode::kFloat32};
constexpr size_t kSizeBytes = sizeof(uint64_t);  // after the tail: how long it is

// A tensor's sum, or a part of it, of a body that was checked.
struct ReadTensor {
  const Tensor* tensor = nullptr;
  v1::RoundBody::Form form = {};
  uint64_t first = 0;  // element
  std::span<const std::byte> data;
  Entries entries;
};

// `next`: by id, the first element that has not come.
StatusOr<ReadTensor> Check(const v1::RoundBody::Tensor& listed, std::span<const std::byte> data,
                           const TensorsById& tensors, const std::vector<uint64_t>& next) {
  if (listed.id() >= tensors.size()) {
    return Invalid(absl::StrFormat("it brings tensor %d of %d", listed.id(), tensors.size()));
  }
  ReadTensor read{tensors[listed.id()], listed.form(), listed.first(), data, {}};
  const std::string& name = read.tensor->spec.name;
  const uint64_t elements = read.tensor->spec.elements;
  if (listed.elements() != elements) {
    return Invalid(absl::StrFormat("tensor '%s' had %d elements and has %d", name,
                                   listed.elements(), elements));
  }
  if (listed.first() != next[listed.id()] || listed.first() == elements) {
    return Corrupt(absl::StrFormat("tensor '%s' goes on with element %d, not %d", name,
                                   listed.first(), next[listed.id()]));
  }
  if (read.tensor->device) return Invalid("tensor '" + name + "' is on a device");
  if (listed.form() == v1::RoundBody::FORM_ENTRIES) {
    if (listed.first() != 0) return Corrupt("tensor '" + name + "' has entries after a part");
    if (listed.entries() > elements) return Corrupt("tensor '" + name + "' has too many entries");
    RW_RETURN_IF_ERROR(Decode(kCodec, {0, elements}, listed.entries(), data, &read.entries));
  } else if (data.size() % sizeof(float) != 0 ||
             data.size() / sizeof(float) > elements - read.first) {
    return Corrupt(absl::StrFormat("tensor '%s' has %d bytes", name, data.size()));
  }
  return read;
}

uint64_t EndOf(const ReadTensor& read) {
  if (read.form == v1::RoundBody::FORM_ENTRIES) return read.tensor->spec.elements;
  return read.first + read.data.size() / sizeof(float);
}

// The same arithmetic as the exchanges' Apply, in float32 whatever the tensor is.
void Write(const ReadTensor& read, double total_weight) {
  const Tensor& tensor = *read.tensor;
  if (read.form == v1::RoundBody::FORM_ENTRIES) {
    ClearGradient(tensor);
    for (size_t i = 0; i < read.entries.size(); ++i) {
      const double average = total_weight == 0 ? 0 : read.entries.value[i] / total_weight;
      const auto value = static_cast<float>(average);
      WriteGradient(tensor, read.entries.index[i], {&value, 1});
    }
    return;
  }
  const size_t elements = EndOf(read) - read.first;
  const bool in_place = tensor.type == DataType::kFloat32;
  Buffer<float> wide(in_place ? 0 : elements);
  const std::span<float> part =
      in_place ? tensor.gradient().subspan(read.first, elements) : wide.span();
  if (!part.empty()) std::memcpy(part.data(), read.data.data(), read.data.size());
  if (read.form == v1::RoundBody::FORM_SUM) DivideInto(part, total_weight, part);
  if (!in_place) WriteGradient(tensor, read.first, part);
}

}  // namespace

std::span<const std::byte> RoundBody::Add(size_t id, uint64_t elements, const TensorSum& sum,
                                          uint64_t reached, Buffer<std::byte>* memory) {
  if (next_.size() <= id) next_.resize(id + 1);
  const uint64_t first = std::exchange(next_[id], sum.sparse ? elements : reached);
  v1::RoundBody::Tensor* const listed = listed_.add_tensors();
  listed->set_id(static_cast<uint32_t>(id));
  listed->set_elements(elements);
  listed->set_first(first);
  std::span<const std::byte> bytes;
  if (!sum.sparse) bytes = std::as_bytes(sum.dense.subspan(first, reached - first));
  if (sum.sparse) {
    const uint64_t most = MaxWireBytes(kCodec, elements, sum.sparse->size());
    if (memory->size() < most) *memory = Buffer<std::byte>(most);
    bytes = memory->span().first(Encode(kCodec, {0, elements}, *sum.sparse, memory->span()));
    listed->set_entries(sum.sparse->size());
  }
  listed->set_form(sum.sparse    ? v1::RoundBody::FORM_ENTRIES
                   : sum.average ? v1::RoundBody::FORM_AVERAGE
                                 : v1::RoundBody::FORM_SUM);
  listed->set_bytes(bytes.size());
  return bytes;
}

std::string RoundBody::Tail(const RoundFacts& facts) {
  listed_.set_total_weight(facts.total_weight);
  listed_.set_skipped(facts.skipped);
  listed_.set_note(facts.note);
  listed_.mutable_members()->Assign(facts.members.begin(), facts.members.end());
  listed_.mutable_contributors()->Assign(facts.contributors.begin(), facts.contributors.end());
  std::string tail = listed_.SerializeAsString();
  const uint64_t size = tail.size();
  tail.append(reinterpret_cast<const char*>(&size), kSizeBytes);
  return tail;
}

StatusOr<RoundFacts> ReadRound(uint64_t step, std::span<const std::byte> body,
                               const TensorsById& tensors) {
  const auto wrong = [step](const Status& why) {
    return Annotate(why, absl::StrFormat("the logged round of step %d", step));
  };
  uint64_t size = 0;
  if (body.size() < kSizeBytes) return wrong(Corrupt("it is cut short"));
  std::memcpy(&size, body.last(kSizeBytes).data(), kSizeBytes);
  body = body.first(body.size() - kSizeBytes);
  v1::RoundBody head;
  if (size > std::min<uint64_t>(body.size(), INT_MAX) ||
      !head.ParseFromArray(body.last(size).data(), static_cast<int>(size))) {
    return wrong(Corrupt("its tail cannot be read"));
  }
  body = body.first(body.size() - size);
  std::vector<ReadTensor> reads;
  std::vector<uint64_t> next(tensors.size());  // by id: the first element that has not come
  for (const v1::RoundBody::Tensor& listed : head.tensors()) {
    if (listed.bytes() > body.size()) return wrong(Corrupt("it is cut short"));
    auto read = Check(listed, body.first(listed.bytes()), tensors, next);
    if (!read.ok()) return wrong(read.status());
    next[listed.id()] = EndOf(*read);
    reads.push_back(*std::move(read));
    body = body.subspan(listed.bytes());
  }
  if (!body.empty()) return wrong(Corrupt("it has bytes that nothing names"));
  for (size_t id = 0; !head.skipped() && id < tensors.size(); ++id) {
    if (next[id] == tensors[id]->spec.elements) continue;
    return wrong(Invalid(absl::StrFormat("it brings %d of %d elements of tensor '%s'", next[id],
                                         tensors[id]->spec.elements, tensors[id]->spec.name)));
  }
  for (const ReadTensor& read : reads) {
    if (!head.skipped()) Write(read, head.total_weight());
  }
  return RoundFacts{step,
                    head.skipped(),
                    head.total_weight(),
                    {head.members().begin(), head.members().end()},
                    {head.contributors().begin(), head.contributors().end()},
                    head.note()};
}

}  // namespace ringwood
