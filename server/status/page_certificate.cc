#include "server/status/page_certificate.h"

#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/log.h"
#include "identity/private_file.h"

namespace ringwood {
namespace {

namespace ssl = boost::asio::ssl;

constexpr size_t kMaxKeyBytes = 1 << 20;  // of PEM: the longest keys have some KiB

using Error = boost::system::error_code;

Status Wrong(const std::string& file, const std::string& why) {
  return Invalid("--http-tls: cannot use " + file + ": " + why);
}

}  // namespace

StatusOr<std::unique_ptr<PageCertificate>> PageCertificate::Open(const std::string& folder) {
  std::unique_ptr<PageCertificate> made(new PageCertificate(folder));
  absl::MutexLock lock(&made->mutex_);
  made->read_ = made->Changed();
  RW_ASSIGN_OR_RETURN(made->context_, made->Read());
  return made;
}

PageCertificate::Context PageCertificate::Newest() {
  absl::MutexLock lock(&mutex_);
  const Times changed = Changed();
  if (changed == read_) return context_;
  read_ = changed;
  if (auto read = Read(); read.ok()) {
    context_ = *std::move(read);
  } else {
    Log(LogLevel::kWarning, Message(read.status()) + "; the one before stays in use");
  }
  return context_;
}

StatusOr<PageCertificate::Context> PageCertificate::Read() const {
  for (const std::string& file : {certificate_, key_}) {
    if (access(file.c_str(), R_OK) != 0) return Wrong(file, std::strerror(errno));
  }
  const StatusOr<SmallFile> key = ReadSmallFile(key_, kMaxKeyBytes);
  if (!key.ok()) return Annotate(key.status(), "--http-tls");
  RW_RETURN_IF_ERROR(Annotate(CheckKeyIsPrivate(key_, *key), "--http-tls"));
  const auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  Error error;
  context->set_options(
      ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  // A key under a password would have OpenSSL ask for it on the terminal.
  context->set_password_callback([](size_t, auto) { return std::string(); }, error);
  context->use_certificate_chain_file(certificate_, error);
  if (error) return Wrong(certificate_, error.message());
  context->use_private_key(boost::asio::buffer(key->content), ssl::context::pem, error);
  if (error) return Wrong(key_, error.message());
  return context;
}

PageCertificate::Times PageCertificate::Changed() const {
  std::error_code error;  // what is not there has the least time
  return {std::filesystem::last_write_time(certificate_, error),
          std::filesystem::last_write_time(key_, error)};
}

}  // namespace ringwood
