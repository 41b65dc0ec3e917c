#include "launch/report.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {
namespace {

constexpr size_t kHeader = 9;

void PutNumber(uint32_t number, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(number >> shift));
}

uint32_t GetNumber(const std::string& in, size_t at) {
  uint32_t number = 0;
  for (int i = 0; i < 4; ++i) {
    number |= static_cast<uint32_t>(static_cast<unsigned char>(in[at + i])) << (8 * i);
  }
  return number;
}

}  // namespace

std::string Encode(const Report& report) {
  RW_CHECK(report.payload.size() <= kMaxReportBytes);
  std::string bytes(1, static_cast<char>(report.kind));
  PutNumber(report.slot, &bytes);
  PutNumber(static_cast<uint32_t>(report.payload.size()), &bytes);
  return bytes + report.payload;
}

Status ReportReader::Feed(const std::string& bytes,
                          const std::function<void(const Report&)>& sink) {
  pending_ += bytes;
  if (!opened_) {
    const size_t at = pending_.find(kOpening);
    const size_t foreign = at == std::string::npos ? pending_.size() : at;
    foreign_ = pending_.substr(0, std::min(foreign, kMaxForeign));
    if (at == std::string::npos) {
      if (pending_.size() <= kMaxForeign) return OkStatus();
      return Corrupt("the remote shell talks, but no ringwood worker answers");
    }
    pending_.erase(0, at + std::strlen(kOpening));
    opened_ = true;
  }
  size_t at = 0;
  while (pending_.size() - at >= kHeader) {
    const uint32_t length = GetNumber(pending_, at + 5);
    if (std::strchr("hsoexaf", pending_[at]) == nullptr || length > kMaxReportBytes) {
      return Corrupt(absl::StrFormat("the worker's stream is broken (kind %d, length %d)",
                                     pending_[at], length));
    }
    if (pending_.size() - at < kHeader + length) break;
    sink({static_cast<ReportKind>(pending_[at]), GetNumber(pending_, at + 1),
          pending_.substr(at + kHeader, length)});
    at += kHeader + length;
  }
  pending_.erase(0, at);
  return OkStatus();
}

}  // namespace ringwood
