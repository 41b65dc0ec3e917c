#include "transport/grpc/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "transport/grpc/piece.h"

namespace ringwood {
namespace {

constexpr size_t kDataBytes = kPieceBytes - sizeof(Frame) - 1;  // of a message in one piece

}  // namespace

void GrpcLink::SayHello(std::vector<std::byte> hello) {
  hello_ = std::move(hello);
  Pump();
}

void GrpcLink::Welcome() {
  heard_ = true;
  life_due_ = true;
  stream_->Read();
  Pump();
}

Status GrpcLink::CanSend() const {
  if (queue_.size() < kMaxQueued) return OkStatus();
  return Exhausted(absl::StrFormat("%d messages wait already", kMaxQueued));
}

void GrpcLink::Send(const Frame& frame, std::span<const std::byte> payload,
                    Transport::SendDone done) {
  queue_.push_back({frame, payload, std::move(done)});
  Pump();
}

void GrpcLink::Ask() {
  ask_due_ = true;
  Pump();
}

void GrpcLink::Written(bool left) {
  writing_ = false;
  if (!left) return;  // the stream is over, or about to be
  AnswerLeaving();
  Pump();
}

void GrpcLink::AnswerLeaving() {
  for (Outgoing& message : std::exchange(leaving_, {})) {
    inbox_->Answer([done = std::move(message.done)] { done(OkStatus()); });
  }
}

// One piece at a time: who we are, then what we have taken, then a message.
void GrpcLink::Pump() {
  if (stream_ == nullptr || writing_ || over_) return;
  const bool ended = assembly_ == nullptr && taken_ != taken_said_;
  if (!hello_.empty()) {
    Write(std::exchange(hello_, {}));
  } else if (std::exchange(life_due_, false)) {
    Write(MakePiece(PieceKind::kLife, 0));
  } else if (std::exchange(ask_due_, false)) {
    Write(MakePiece(PieceKind::kAsk, 0));
  } else if (ended || taken_ - taken_said_ >= kTakenBytes) {
    taken_said_ = taken_;
    Write(MakePiece(PieceKind::kTaken, taken_));
  } else if (!queue_.empty() && sent_ - taken_by_peer_ < kWindowBytes) {
    WriteMessage();
  }
}

void GrpcLink::Write(const std::vector<std::byte>& piece) {
  writing_ = true;
  stream_->Write(piece, {});
}

void GrpcLink::WriteMessage() {
  Outgoing& message = queue_.front();
  const std::span<const std::byte> data = message.payload.subspan(
      offset_, std::min<size_t>(kDataBytes, message.payload.size() - offset_));
  const PieceKind kind = begun_ ? PieceKind::kMore : PieceKind::kStart;
  std::byte head[1 + sizeof(Frame)] = {static_cast<std::byte>(kind)};
  if (!begun_) std::memcpy(head + 1, &message.frame, sizeof(Frame));
  const size_t head_bytes = begun_ ? 1 : sizeof head;
  writing_ = true;
  begun_ = true;
  offset_ += data.size();
  sent_ += head_bytes - 1 + data.size();
  stream_->Write({head, head_bytes}, data);
  if (offset_ < message.payload.size()) return;
  leaving_.push_back(std::move(message));
  queue_.pop_front();
  offset_ = 0;
  begun_ = false;
}

Status GrpcLink::Arrived(std::span<const std::byte> piece) {
  heard_ = true;
  RW_RETURN_IF_ERROR(Take(piece));
  stream_->Read();
  Pump();
  return OkStatus();
}

Status GrpcLink::Take(std::span<const std::byte> piece) {
  if (piece.empty()) return Corrupt("an empty piece arrived");
  const std::span<const std::byte> body = piece.subspan(1);
  switch (static_cast<PieceKind>(piece[0])) {
    case PieceKind::kStart:
      return TakeStart(body);
    case PieceKind::kMore:
      return TakeMore(body);
    case PieceKind::kTaken:
      return TakeTaken(body);
    case PieceKind::kAsk:
      life_due_ = true;
      return OkStatus();
    case PieceKind::kLife:
      return OkStatus();
    case PieceKind::kFarewell:
      if (body.empty()) return Corrupt("a farewell without a reason arrived");
      return ReadFarewell(std::to_integer<uint8_t>(body[0]), body.subspan(1), inbox_->Label(peer_));
    default:
      return Corrupt("a piece of an unknown kind arrived");
  }
}

Status GrpcLink::TakeStart(std::span<const std::byte> body) {
  if (body.size() < sizeof(Frame)) return Corrupt("a message without a whole frame arrived");
  RW_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(body.first(sizeof(Frame))));
  const std::span<const std::byte> data = body.subspan(sizeof(Frame));
  if (assembly_ != nullptr || data.size() > frame.bytes) {
    return Corrupt("a message began inside another, or is longer than its frame announced");
  }
  if (frame.sender != static_cast<uint32_t>(peer_)) {
    return Corrupt(absl::StrFormat("it sends in the name of node %d", frame.sender));
  }
  if (data.size() < frame.bytes && data.size() < kDataBytes) {
    return Corrupt("a message's first piece is not a full one");
  }
  taken_ += body.size();
  if (data.size() == frame.bytes) {
    inbox_->Arrive(frame, data);
    return OkStatus();
  }
  assembly_ = std::make_shared<Assembly>(frame.bytes);
  inbox_->Arrive(frame, MakeAssemblyPayload(assembly_, frame.bytes));
  assembly_->Add(data);
  return OkStatus();
}

Status GrpcLink::TakeMore(std::span<const std::byte> body) {
  if (assembly_ == nullptr || body.empty() || !assembly_->Add(body)) {
    return Corrupt("a piece arrived that belongs to no message");
  }
  taken_ += body.size();
  if (assembly_->complete()) assembly_.reset();
  return OkStatus();
}

Status GrpcLink::TakeTaken(std::span<const std::byte> body) {
  uint64_t taken = 0;
  if (body.size() != sizeof taken) return Corrupt("a piece has the wrong length");
  std::memcpy(&taken, body.data(), sizeof taken);
  if (taken < taken_by_peer_ || taken > sent_) return Corrupt("it took what was not sent");
  taken_by_peer_ = taken;
  // A peer that has taken everything may close before gRPC reports that our write has left.
  if (taken == sent_) AnswerLeaving();
  return OkStatus();
}

void GrpcLink::Fail(const Status& reason) {
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->Release();
  for (auto* sends : {&leaving_, &queue_}) {
    for (Outgoing& message : *sends) {
      const Status lost = Annotate(reason, "send " + ToString(NameOf(message.frame)));
      inbox_->Answer([done = std::move(message.done), lost] { done(lost); });
    }
    sends->clear();
  }
  if (assembly_ != nullptr) std::exchange(assembly_, nullptr)->Fail(reason);
}

void GrpcLink::Close(const Status& reason, std::vector<std::byte> farewell) {
  AnswerLeaving();  // the stream ends after it
  if (stream_ != nullptr && heard_) {
    std::deque<std::vector<std::byte>> last;
    if (taken_ != taken_said_) last.push_back(MakePiece(PieceKind::kTaken, taken_));
    if (!farewell.empty()) last.push_back(std::move(farewell));
    std::exchange(stream_, nullptr)->Release(std::move(last));
  }
  Fail(reason);
}

}  // namespace ringwood
