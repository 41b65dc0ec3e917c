#include "server/store/portable/checkpoint_export.h"

#include "server/store/portable/part_file.h"

namespace ringwood {

Status ExportCheckpoint(const CheckpointReader& reader, const v1::CheckpointManifest& manifest,
                        const ExportPlan& plan, const std::string& file,
                        const ReadProgress& progress) {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  return ExportCheckpoint(
      [&](const v1::StoredItem& item, const v1::StoredChunk& chunk) {
        return reader.Chunk(id, item, chunk);
      },
      manifest, plan, file, progress);
}

Status ExportCheckpoint(const ReadChunk& read, const v1::CheckpointManifest& manifest,
                        const ExportPlan& plan, const std::string& file,
                        const ReadProgress& progress) {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  RW_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(plan.file));
  const uint64_t all = plan.file.DataBytes();
  RW_ASSIGN_OR_RETURN(const auto part, PartFile::Create(file, header.size() + all));
  RW_RETURN_IF_ERROR(part->Append(header));
  uint64_t done = 0;
  for (const v1::StoredItem* item : plan.sources) {
    for (const v1::StoredChunk& chunk : item->chunks()) {
      RW_ASSIGN_OR_RETURN(const std::string bytes, read(*item, chunk));
      RW_RETURN_IF_ERROR(part->Append(bytes));
      done += bytes.size();
      if (progress) RW_RETURN_IF_ERROR(progress(id, done, all));
    }
  }
  return part->Publish();
}

}  // namespace ringwood
