// Names of tensors and checkpoint items, set by the trainer. They are sent in messages, appear in
// plans, logs and JSON, and are keys in the store.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

constexpr size_t kMaxNameBytes = 255;

// UTF-8 without control characters, 1 to kMaxNameBytes bytes; kInvalidArgument says what `what`
// ("the tensor's name") has instead. The message is printable whatever the name is.
Status CheckName(const char* what, const std::string& name);

}  // namespace ringwood
