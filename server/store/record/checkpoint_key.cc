#include "server/store/record/checkpoint_key.h"

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

template <typename Number>
void Append(std::string* key, Number number) {
  for (int shift = 8 * (sizeof(Number) - 1); shift >= 0; shift -= 8) {
    key->push_back(static_cast<char>(number >> shift & 0xff));
  }
}

uint64_t Read(const std::string& key, size_t at) {
  uint64_t number = 0;
  for (size_t i = at; i < at + 8; ++i) number = number << 8 | static_cast<unsigned char>(key[i]);
  return number;
}

std::string Prefix(char kind, const CheckpointId& id) {
  std::string key(1, kind);
  Append(&key, id.epoch);
  Append(&key, id.step);
  return key;
}

constexpr size_t kPrefixBytes = 1 + 8 + 8;

}  // namespace

std::string Text(const CheckpointId& id) {
  return absl::StrFormat("step %d (epoch %d)", id.step, id.epoch);
}

std::string ManifestKey(const CheckpointId& id) { return Prefix('m', id); }

std::string UnreadKey(const CheckpointId& id) { return Prefix('u', id); }

std::string ChunkKey(const CheckpointId& id, uint32_t rank, uint32_t sequence) {
  std::string key = Prefix('c', id);
  Append(&key, rank);
  Append(&key, sequence);
  return key;
}

std::string FirstChunkKey(const CheckpointId& id) { return Prefix('c', id); }

std::string EndChunkKey(const CheckpointId& id) {
  return Prefix('c', id) + std::string(8, '\xff') + '\xff';
}

bool ParseKey(const std::string& key, char kind, CheckpointId* id) {
  if (key.size() < kPrefixBytes || key[0] != kind) return false;
  *id = {Read(key, 1), Read(key, 9)};
  return true;
}

uint64_t PlaceInCheckpoint(uint32_t rank, uint32_t sequence) {
  return uint64_t{rank} << 32 | sequence;
}

uint64_t PlaceInCheckpoint(const std::string& chunk_key) { return Read(chunk_key, kPrefixBytes); }

}  // namespace ringwood
