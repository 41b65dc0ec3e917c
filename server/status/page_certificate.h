// The certificate of the status page: cert.pem and key.pem of a folder. They are read again when
// they have changed, so that a renewed certificate is used for the next connection; one that cannot
// be read leaves the one before in use.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"

namespace boost::asio::ssl {
class context;
}

namespace ringwood {

class PageCertificate {
 public:
  using Context = std::shared_ptr<boost::asio::ssl::context>;

  // Invalid, with the file's name: it is not there, no PEM, or the key is another certificate's.
  // Denied: others can read the key.
  static StatusOr<std::unique_ptr<PageCertificate>> Open(const std::string& folder);

  Context Newest();  // TLS 1.2 or newer, of a server; any thread

 private:
  using Times = std::array<std::filesystem::file_time_type, 2>;

  explicit PageCertificate(const std::string& folder)
      : certificate_(folder + "/cert.pem"), key_(folder + "/key.pem") {}
  StatusOr<Context> Read() const;
  Times Changed() const;

  const std::string certificate_, key_;
  absl::Mutex mutex_;
  Context context_ ABSL_GUARDED_BY(mutex_);
  Times read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
