// Folders in which no other user can replace what is in them: of a store, of a deployment.
#pragma once

#include <rocksdb/env.h>
#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace ringwood {

// errno as an error. A full or failing disk may be fixed while the job continues or is restarted:
// Unavailable; what the path itself forbids is configuration: Refused.
Status FolderError(const std::string& what);

// With its parents, which get the usual permissions; durable when it returns.
Status MakeDirectory(const std::string& path, mode_t mode, rocksdb::Env* env);

// What was created and renamed in it survives a power loss.
Status SyncDirectory(const std::string& directory, rocksdb::Env* env);

// Refused unless it is a folder of this user's to which no other user can write.
Status CheckOwner(const std::string& path);

// Makes the folder if it is missing, and answers its path without links. Refused where another user
// could put another in its place.
StatusOr<std::string> PlaceOf(const std::string& directory, rocksdb::Env* env);

// The folder of a deployment, which is made if it is missing, with the folder `inside`; both are
// this user's alone from now on. Refused for one that another user owns or may write to, and for
// one with other files, neither that folder nor a store's.
Status PreparePrivateFolder(const std::string& directory, const std::string& inside,
                            rocksdb::Env* env = rocksdb::Env::Default());

}  // namespace ringwood
