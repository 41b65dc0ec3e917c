// Files that hold a secret, and others that lie beside them: how they are read, and who else could
// read them (base/files/whole_file.h writes them). Errors name the file, never what is in it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace ringwood {

struct SmallFile {
  std::string content;
  uid_t owner = 0;
  mode_t mode = 0;  // the permission bits
};

// At most the first `most` bytes of a regular file. Does not wait for the other end of a FIFO.
// NotFound: there is none. Refused: it cannot be read. Invalid: it is no regular file.
StatusOr<SmallFile> ReadSmallFile(const std::string& path, size_t most);

// Whether only its owner can read the file, and that is this user or root, whose file the group may
// read as well: so Kubernetes mounts secrets.
bool IsPrivate(const SmallFile& file);
// Denied, with the remedy: the key in the file is not private.
Status CheckKeyIsPrivate(const std::string& path, const SmallFile& file);
// As ssh takes a key: no file of this user that others can read. Another owner's file, a mounted
// secret for example, is that owner's affair.
bool IsPrivateOrAnothers(const SmallFile& file);

// Makes a folder that only this user can open; one that is so already is good as well. Refused:
// otherwise.
Status MakePrivateFolder(const std::string& folder);

}  // namespace ringwood
