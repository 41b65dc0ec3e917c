// The C interface: the newest committed weights, for a process that is no rank.
#include "client/pull/pull.h"

#include <grpc/grpc.h>

#include "base/log.h"
#include "client/c/handle.h"
#include "client/grpc/reader_client.h"
#include "include/ringwood_pull.h"
#include "proto/access.h"
#include "proto/item_choice.h"
#include "proto/token_file.h"

using ringwood::Invalid;
using ringwood::NotFound;
using ringwood::OkStatus;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::Answer;
using ringwood::c::Bytes;
using ringwood::c::Read;
using ringwood::c::Run;
using ringwood::c::Text;
using ringwood::c::Write;

struct ringwood_pulled {
  const pid_t owner = getpid();
  std::unique_ptr<ringwood::Pulled> pulled;
  ringwood::ChosenItems chosen;  // borrows from the manifest of `pulled`
  absl::Mutex reading;           // held by a read
};

namespace ringwood::c {
namespace {

StatusOr<ItemChoice> ChoiceOf(const ringwood_pull_options& given) {
  ItemChoice choice;
  if (given.items == nullptr && given.item_count != 0) return Invalid("the items are NULL");
  for (size_t i = 0; i < given.item_count; ++i) {
    if (given.items[i] == nullptr) return Invalid("the name of an item is NULL");
    choice.patterns.push_back(given.items[i]);
  }
  if (given.rank == nullptr) return choice;
  if (*given.rank < 0) return Invalid(absl::StrFormat("rank %d: ranks begin at 0", *given.rank));
  choice.rank = static_cast<uint32_t>(*given.rank);
  return choice;
}

StatusOr<PullOptions> PullOptionsOf(const ringwood_pull_options& given) {
  PullOptions options;
  options.server = Text(given.server);
  options.job = given.job;
  options.newest_stored = given.newest_stored != 0;
  if (given.timeout_seconds != 0) options.timeout_seconds = given.timeout_seconds;
  RW_RETURN_IF_ERROR(Check(options));
  return options;
}

template <typename Call>
int WithPulled(const ringwood_pulled* pulled, Call call) {
  if (pulled == nullptr) return Answer(RINGWOOD_INVALID, "what was pulled is NULL: pull first");
  if (pulled->owner != getpid()) {
    return Answer(RINGWOOD_FORKED,
                  absl::StrFormat("process %d was forked from the one that pulled (%d): only that "
                                  "one may read",
                                  getpid(), pulled->owner));
  }
  return Run([&] { return call(*const_cast<ringwood_pulled*>(pulled)); });
}

Status CheckIndex(const ringwood_pulled& pulled, size_t index) {
  if (index < pulled.chosen.items.size()) return OkStatus();
  return NotFound(
      absl::StrFormat("there are %d items, none of index %d", pulled.chosen.items.size(), index));
}

}  // namespace
}  // namespace ringwood::c

extern "C" {

int ringwood_pull(const ringwood_pull_options* options, ringwood_pulled** pulled) {
  ringwood::PullOptions wanted;
  ringwood::ItemChoice choice;
  std::string token, token_file, identity;
  const int code = Run([&]() -> Status {
    if (pulled == nullptr) return Invalid("the place for what is pulled is NULL");
    *pulled = nullptr;
    RW_ASSIGN_OR_RETURN(const ringwood_pull_options given, Read(options, "ringwood_pull_options"));
    RW_ASSIGN_OR_RETURN(wanted, ringwood::c::PullOptionsOf(given));
    RW_ASSIGN_OR_RETURN(choice, ringwood::c::ChoiceOf(given));
    token = Text(given.token);
    if (token.empty()) token_file = Text(given.token_file);
    if (!token_file.empty()) {
      RW_ASSIGN_OR_RETURN(token, ringwood::ReadTokenFile("RINGWOOD_TOKEN_FILE", token_file));
    }
    identity = Text(given.identity);
    return OkStatus();
  });
  if (code != RINGWOOD_OK) return code;
  if (const int claimed = ringwood::c::ClaimProcess(); claimed != RINGWOOD_OK) return claimed;
  ringwood::HoldStandardDescriptors();
  static const bool started = (grpc_init(), true);  // to the end of the process, as for a session
  (void)started;
  // Sockets are left to forked children: the store lets go of what a dead reader held.
  return Run([&]() -> Status {
    RW_ASSIGN_OR_RETURN(auto credentials, ringwood::OpenCredentials(identity));
    auto made = std::make_unique<ringwood_pulled>();
    RW_ASSIGN_OR_RETURN(
        made->pulled,
        ringwood::Pulled::Open(
            wanted, ringwood::MakeGrpcReaderClient(
                        {wanted.server, ringwood::Access(token, credentials, token_file), ""})));
    RW_ASSIGN_OR_RETURN(made->chosen, ringwood::ChooseItems(made->pulled->manifest(), choice));
    *pulled = made.release();
    return OkStatus();
  });
}

int ringwood_pulled_describe(const ringwood_pulled* pulled, ringwood_pulled_state* state) {
  return ringwood::c::WithPulled(pulled, [&](ringwood_pulled& mine) -> Status {
    if (state == nullptr) return Invalid("ringwood_pulled_state is NULL");
    const ringwood::v1::CheckpointManifest& manifest = mine.pulled->manifest();
    ringwood_pulled_state value{};
    value.job = manifest.job();
    value.epoch = manifest.epoch();
    value.step = manifest.step();
    value.unix_seconds = manifest.unix_seconds();
    for (const auto& each : mine.chosen.items) value.bytes += each.item->bytes();
    value.items = mine.chosen.items.size();
    value.of_ranks = mine.chosen.of_ranks;
    return Write(value, state, "ringwood_pulled_state");
  });
}

int ringwood_pulled_describe_item(const ringwood_pulled* pulled, size_t index,
                                  ringwood_pulled_item* item) {
  return ringwood::c::WithPulled(pulled, [&](ringwood_pulled& mine) -> Status {
    if (item == nullptr) return Invalid("ringwood_pulled_item is NULL");
    RW_RETURN_IF_ERROR(ringwood::c::CheckIndex(mine, index));
    const ringwood::ChosenItem& chosen = mine.chosen.items[index];
    ringwood_pulled_item value{};
    value.name = chosen.name.c_str();
    value.bytes = chosen.item->bytes();
    value.dtype = chosen.type.dtype.c_str();
    value.shape = chosen.type.shape.data();
    value.dimensions = chosen.type.shape.size();
    return Write(value, item, "ringwood_pulled_item");
  });
}

int ringwood_pulled_read(ringwood_pulled* pulled, size_t index, void* out, uint64_t bytes) {
  return ringwood::c::WithPulled(pulled, [&](ringwood_pulled& mine) -> Status {
    RW_RETURN_IF_ERROR(ringwood::c::CheckIndex(mine, index));
    RW_ASSIGN_OR_RETURN(const auto place, Bytes(out, bytes));
    absl::MutexLock lock(&mine.reading);
    return mine.pulled->Read(*mine.chosen.items[index].item, place);
  });
}

void ringwood_pulled_free(ringwood_pulled* pulled) {
  if (pulled == nullptr || pulled->owner != getpid()) return;
  delete pulled;
}

}  // extern "C"
