#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/files/whole_file.h"
#include "cli/command.h"
#include "identity/authority.h"
#include "identity/identity.h"

namespace ringwood {
namespace {

constexpr char kAuthorityKeyFile[] = "ca-key.pem";
constexpr int64_t kDaySeconds = 86'400;
// Clocks of the hosts may differ by so much.
constexpr int64_t kClockSeconds = 600;
constexpr int kMostAtOnce = 16'384;

struct CaFlags {
  std::string folder;  // of the authority
  std::string out;
  std::string job = "job", role, slots = "any";
  int days = 0;
};

struct Slots {
  int first = kAnySlot, last = kAnySlot;
};

// "any", "3", "0-7".
StatusOr<Slots> ParseSlots(const std::string& text) {
  if (text == "any") return Slots();
  const size_t dash = text.find('-');
  Slots slots;
  const std::string first = text.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : text.substr(dash + 1);
  if (absl::SimpleAtoi(first, &slots.first) && absl::SimpleAtoi(last, &slots.last) &&
      slots.first >= 0 && slots.last >= slots.first && slots.last <= IdentityName::kMaxSlot &&
      slots.last - slots.first < kMostAtOnce) {
    return slots;
  }
  return Invalid(absl::StrFormat("--slot %s: give a number, FIRST-LAST, or any", text));
}

Validity FromNow(int days) {
  const int64_t now = std::time(nullptr);
  return {now - kClockSeconds, now + days * kDaySeconds};
}

std::string Day(int64_t unix_seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixSeconds(unix_seconds),
                          absl::UTCTimeZone());
}

Status ExecuteInit(const CaFlags& flags) {
  const std::string key_file = flags.folder + "/" + kAuthorityKeyFile;
  const std::string file = flags.folder + "/" + kAuthorityFile;
  std::error_code error;
  if (std::filesystem::exists(key_file, error)) {
    if (!std::filesystem::exists(file, error)) {
      return AlreadyExists(key_file + " is there without " + kAuthorityFile +
                           ": an authority that was not finished has issued nothing; remove the "
                           "key and try again");
    }
    return AlreadyExists(key_file +
                         " is there: a new authority would make all of its certificates useless; "
                         "name another folder");
  }
  RW_ASSIGN_OR_RETURN(const Authority authority,
                      Authority::Make("ringwood authority", FromNow(flags.days)));
  RW_RETURN_IF_ERROR(MakePrivateFolder(flags.folder));
  RW_RETURN_IF_ERROR(WriteWhole(key_file, authority.key(), 0600));
  if (const Status failed = WriteWhole(file, authority.certificate(), 0644); !failed.ok()) {
    std::filesystem::remove(key_file, error);  // else it would be taken for an authority's
    return failed;
  }
  std::printf("%s: the authority's certificate, which all processes know\n", file.c_str());
  std::printf("%s: its key; who has it can join every job\n", key_file.c_str());
  return OkStatus();
}

StatusOr<Authority> ReadAuthority(const std::string& folder) {
  RW_ASSIGN_OR_RETURN(const std::string certificate,
                      ReadPemFile(folder + "/" + kAuthorityFile, false));
  RW_ASSIGN_OR_RETURN(const std::string key, ReadPemFile(folder + "/" + kAuthorityKeyFile, true));
  auto authority = Authority::Read(certificate, key);
  if (authority.ok()) return authority;
  return Annotate(authority.status(), folder);
}

Status ExecuteIssue(const CaFlags& flags) {
  IdentityName name;
  name.job = flags.job;
  RW_ASSIGN_OR_RETURN(name.role, ParseIdentityRole(flags.role));
  RW_ASSIGN_OR_RETURN(const Slots slots, ParseSlots(flags.slots));
  RW_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(flags.folder));
  const bool several = slots.first != slots.last;
  if (several) RW_RETURN_IF_ERROR(MakePrivateFolder(flags.out));
  int64_t until = 0;  // an authority cuts what would outlast it
  for (name.slot = slots.first; name.slot <= slots.last; ++name.slot) {
    RW_ASSIGN_OR_RETURN(const Leaf leaf, authority.Issue(name, FromNow(flags.days)));
    const std::string folder =
        several ? absl::StrFormat("%s/%s-%d", flags.out, ToString(name.role), name.slot)
                : flags.out;
    RW_RETURN_IF_ERROR(WriteIdentity(folder, authority.certificate(), leaf));
    RW_ASSIGN_OR_RETURN(const Identity written, ReadIdentity(folder, std::time(nullptr)));
    until = written.validity.until;
    std::printf("%s: %s\n", folder.c_str(), ToUri(name).c_str());
  }
  const bool cut = until + kClockSeconds < FromNow(flags.days).until;
  std::printf("valid until %s%s\n", Day(until).c_str(),
              cut ? ", when the authority ends, and not for as long as --days says" : "");
  return OkStatus();
}

Status ExecuteShow(const CaFlags& flags) {
  RW_ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(flags.folder, std::time(nullptr)));
  std::printf("%s\nvalid from %s to %s\n", ToUri(identity.name).c_str(),
              Day(identity.validity.from).c_str(), Day(identity.validity.until).c_str());
  return OkStatus();
}

Flag AddDays(Command command, CaFlags* flags, const char* what) {
  return command.Value("--days", &flags->days, what).Takes("DAYS").Within(1, 36'500).ShowDefault();
}

}  // namespace

void AddCaCommand(Command app, CommandContext* context) {
  Command parent = app.Subcommand(
      "ca", "Make an authority and certificates, for servers and ranks that are started by hand");
  parent.NeedsSubcommand();

  Command init = parent.Subcommand("init", "Make a certificate authority");
  auto made = std::make_shared<CaFlags>();
  made->days = 3650;
  init.Value("folder", &made->folder, "Write its certificate and key into this folder")
      .Takes("FOLDER")
      .Required();
  AddDays(init, made.get(), "Let it be valid for so long");
  init.Run(context, [made] { return ExecuteInit(*made); });

  Command issue = parent.Subcommand("issue", "Issue certificates, each with its key");
  issue.Footer("Example: ringwood ca issue ./ca --job mnist --role rank --slot 0-7 --out ./ranks");
  auto issued = std::make_shared<CaFlags>();
  issued->days = 30;
  issue.Value("folder", &issued->folder, "The authority's folder").Takes("FOLDER").Required();
  issue
      .Value("--job", &issued->job,
             "The job that it is for; any: a server that serves all jobs of the authority")
      .Takes("NAME")
      .ShowDefault();
  issue.Value("--role", &issued->role, "What the process is")
      .OneOf({"rank", "server", "observer"})
      .Required();
  issue
      .Value("--slot", &issued->slots,
             "Which rank or server it is: a number, FIRST-LAST for a certificate each, in folders "
             "ROLE-NUMBER, or any")
      .Takes("SLOT")
      .ShowDefault();
  issue
      .Value("--out", &issued->out,
             "Write ca.pem, cert.pem and key.pem into this folder, which --identity names")
      .Takes("FOLDER")
      .Required();
  AddDays(issue, issued.get(), "Let them be valid for so long");
  issue.Run(context, [issued] { return ExecuteIssue(*issued); });

  Command show = parent.Subcommand("show", "Check a certificate and say whose it is");
  auto shown = std::make_shared<CaFlags>();
  show.Value("folder", &shown->folder, "The folder with ca.pem, cert.pem and key.pem")
      .Takes("FOLDER")
      .Required();
  show.Run(context, [shown] { return ExecuteShow(*shown); });
}

}  // namespace ringwood
