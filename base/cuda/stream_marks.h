// What the trainer's streams held when it said that a gradient is ready: later work waits for that
// and for nothing that came behind it, such as the rest of backward. An event for each stream,
// which a later mark moves on. Only for sources that are built with CUDA.
#pragma once

#include <memory>
#include <vector>

#include "base/cuda/runtime.h"

namespace ringwood {

// One thread at a time.
class StreamMarks {
 public:
  // What `stream` holds now.
  Status Record(cudaStream_t stream) {
    Mark* mark = Find(stream);
    if (mark == nullptr) {
      auto event = std::make_unique<CudaEvent>();
      RW_RETURN_IF_ERROR(event->Create());
      marks_.push_back({stream, std::move(event), false});
      mark = &marks_.back();
    }
    mark->fresh = true;
    return mark->event->Record(stream);
  }

  // What is put on `later` from here on runs after the mark of `stream`; where there is none since
  // the last Await, after all that it holds.
  Status Await(cudaStream_t later, cudaStream_t stream) {
    if (const Mark* mark = Find(stream); mark == nullptr || !mark->fresh) {
      RW_RETURN_IF_ERROR(Record(stream));
    }
    Mark* const mark = Find(stream);
    mark->fresh = false;
    return mark->event->Await(later);
  }

 private:
  struct Mark {
    cudaStream_t stream;
    std::unique_ptr<CudaEvent> event;
    bool fresh;
  };
  Mark* Find(cudaStream_t stream) {
    for (Mark& mark : marks_) {
      if (mark.stream == stream) return &mark;
    }
    return nullptr;
  }

  std::vector<Mark> marks_;  // a handful: the streams of a group's tensors
};

}  // namespace ringwood
