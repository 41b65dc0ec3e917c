#include "server/store/portable/safetensors.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_format.h"
#include "base/quoted.h"
#include "base/text.h"
#include "server/store/portable/safetensors_parser.h"

namespace ringwood {
namespace {

constexpr uint64_t kAlignment = 8;

Status CheckSafetensorName(const std::string& name) {
  const std::string shown = Printable(name, kMaxSafetensorNameBytes);
  if (name.empty()) return Invalid("a tensor without a name");
  if (shown != name) {
    return Invalid("a tensor's name is too long or not printable: '" + shown + "'");
  }
  return name == kMetadataKey ? Invalid("'" + name + "' is no tensor's name") : OkStatus();
}

// Names once, and bytes without gaps, overlaps or an end elsewhere than the data's.
Status CheckCover(const Safetensors& file, uint64_t data_bytes) {
  std::set<std::string> names;
  uint64_t end = 0;
  for (const Safetensor& tensor : file.tensors) {
    RW_RETURN_IF_ERROR(CheckSafetensorName(tensor.name));
    const std::string what = "the tensor '" + tensor.name + "'";
    if (tensor.type.dtype.empty()) return Invalid(what + " has no element type");
    RW_RETURN_IF_ERROR(CheckType(what, tensor.type, tensor.bytes));
    if (!names.insert(tensor.name).second) return Invalid(what + " is there twice");
    if (tensor.offset != end) {
      return Invalid(
          absl::StrFormat("%s begins at byte %d of the data, the one before it ends at "
                          "%d",
                          what, tensor.offset, end));
    }
    if (tensor.bytes > data_bytes - end) {
      return Invalid(
          absl::StrFormat("%s ends behind the file, which has %d bytes of data", what, data_bytes));
    }
    end += tensor.bytes;
  }
  if (end == data_bytes) return OkStatus();
  return Invalid(absl::StrFormat("the tensors have %d bytes, the file has %d", end, data_bytes));
}

// Where several are at one place all but the last are empty.
void SortByPlace(std::vector<Safetensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const Safetensor& a, const Safetensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
}

Status AsCorrupt(const Status& status) {
  return status.ok() ? status : Corrupt("no safetensors file: " + Message(status));
}

}  // namespace

uint64_t Safetensors::DataBytes() const {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().bytes;
}

Status Arrange(Safetensors* file) {
  std::sort(file->tensors.begin(), file->tensors.end(),
            [](const Safetensor& a, const Safetensor& b) {
              const uint64_t one = BytesOfElement(a.type.dtype);
              const uint64_t other = BytesOfElement(b.type.dtype);
              return std::tie(other, a.name) < std::tie(one, b.name);  // large elements first
            });
  if (file->tensors.size() > kMaxSafetensors) {
    return Invalid(absl::StrFormat("%d tensors, a file has at most %d", file->tensors.size(),
                                   kMaxSafetensors));
  }
  uint64_t end = 0;
  for (Safetensor& tensor : file->tensors) {
    auto bytes = BytesOf(tensor.type);
    if (!bytes.ok()) return Annotate(bytes.status(), "the tensor '" + tensor.name + "'");
    tensor.bytes = *bytes;
    tensor.offset = end;
    if (*bytes > UINT64_MAX - end) return Invalid("tensors of more than 2^64 bytes");
    end += *bytes;
  }
  SortByPlace(&file->tensors);
  return CheckCover(*file, end);
}

StatusOr<std::string> SafetensorsHeader(const Safetensors& file) {
  RW_RETURN_IF_ERROR(CheckCover(file, file.DataBytes()));
  std::string json = "{";
  if (!file.metadata.empty()) {
    json += JsonString(kMetadataKey) + ":{";
    for (const auto& [key, value] : file.metadata) {
      json += (json.back() == '{' ? "" : ",") + JsonString(key) + ":" + JsonString(value);
    }
    json += "}";
  }
  for (const Safetensor& tensor : file.tensors) {
    json += (json.size() == 1 ? "" : ",") + JsonString(tensor.name);
    json += ":{\"dtype\":\"" + tensor.type.dtype + "\",\"shape\":[";
    for (size_t i = 0; i < tensor.type.shape.size(); ++i) {
      json += (i == 0 ? "" : ",") + std::to_string(tensor.type.shape[i]);
    }
    json +=
        absl::StrFormat("],\"data_offsets\":[%d,%d]}", tensor.offset, tensor.offset + tensor.bytes);
  }
  json += "}";
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return Invalid(
        absl::StrFormat("a header of %d bytes, at most %d are possible: choose fewer "
                        "tensors",
                        json.size(), kMaxSafetensorsHeaderBytes));
  }
  std::string head;
  for (size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
    head.push_back(static_cast<char>(uint64_t{json.size()} >> 8 * i & 0xff));
  }
  return head + json;
}

StatusOr<uint64_t> SafetensorsHeaderBytes(const std::string& prefix, uint64_t file_bytes) {
  if (prefix.size() < kSafetensorsPrefixBytes || file_bytes < kSafetensorsPrefixBytes) {
    return AsCorrupt(Invalid("it is shorter than 8 bytes"));
  }
  uint64_t bytes = 0;
  for (size_t i = kSafetensorsPrefixBytes; i-- > 0;) {
    bytes = bytes << 8 | static_cast<unsigned char>(prefix[i]);
  }
  if (bytes > kMaxSafetensorsHeaderBytes) {
    return AsCorrupt(
        Invalid(absl::StrFormat("its header would have %d bytes, at most %d are "
                                "possible",
                                bytes, kMaxSafetensorsHeaderBytes)));
  }
  if (bytes > file_bytes - kSafetensorsPrefixBytes) {
    return AsCorrupt(Invalid(
        absl::StrFormat("its header would have %d bytes, the file has %d", bytes, file_bytes)));
  }
  return bytes;
}

StatusOr<Safetensors> ParseSafetensors(const std::string& header, uint64_t data_bytes) {
  StatusOr<Safetensors> file = ParseSafetensorsJson(header);
  if (!file.ok()) return AsCorrupt(file.status());
  SortByPlace(&file->tensors);
  RW_RETURN_IF_ERROR(AsCorrupt(CheckCover(*file, data_bytes)));
  return file;
}

}  // namespace ringwood
