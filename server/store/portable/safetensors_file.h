// A safetensors file on a disk: its header, checked, and its bytes in order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/store/portable/safetensors.h"

namespace ringwood {

class SafetensorsFile {
 public:
  // Refused: it cannot be opened, or is no regular file (nothing is waited for). Corrupt: it is no
  // safetensors file.
  static StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();

  const Safetensors& content() const { return content_; }
  const std::string& header() const { return header_; }  // the JSON

  // The next `bytes` of the data. Corrupt: the file became shorter since it was opened.
  StatusOr<std::string> Next(uint64_t bytes);

 private:
  SafetensorsFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  Status Load();

  const std::string path_;
  const int descriptor_;
  std::string header_;
  Safetensors content_;
};

}  // namespace ringwood
