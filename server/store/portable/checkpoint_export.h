// Writes a checkpoint's items into a safetensors file, chunk by chunk.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "server/store/checkpoint_reader.h"
#include "server/store/portable/export_plan.h"

namespace ringwood {

// One chunk's bytes, checked.
using ReadChunk =
    std::function<StatusOr<std::string>(const v1::StoredItem&, const v1::StoredChunk&)>;

// Every byte is checked by its digest. On an error FILE is as it was. In memory is one chunk, and
// the file's header. `file`: a path.
Status ExportCheckpoint(const CheckpointReader& reader, const v1::CheckpointManifest& manifest,
                        const ExportPlan& plan, const std::string& file,
                        const ReadProgress& progress);
Status ExportCheckpoint(const ReadChunk& read, const v1::CheckpointManifest& manifest,
                        const ExportPlan& plan, const std::string& file,
                        const ReadProgress& progress);

}  // namespace ringwood
