#include "server/coordinator/kept_record.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace ringwood {

Status CheckNewer(const v1::EpochRecord& kept, const v1::EpochRecord& record) {
  const bool ends = record.epoch() == kept.epoch() && record.members().empty();
  if (record.epoch() > kept.epoch() || ends) return OkStatus();
  return Refused(absl::StrFormat("epoch %d is recorded already, %d is not newer", kept.epoch(),
                                 record.epoch()));
}

std::string IncarnationHash(uint64_t incarnation, const std::string& key) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  RW_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(&incarnation), sizeof incarnation, hash,
                &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(hash), size);
}

v1::EpochRecord WithoutIncarnations(v1::EpochRecord record, const std::string& key) {
  for (v1::RecordedMember& member : *record.mutable_members()) {
    member.set_incarnation_hash(IncarnationHash(member.incarnation(), key));
    member.clear_incarnation();
  }
  return record;
}

}  // namespace ringwood
