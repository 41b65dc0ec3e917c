// One connection of a gRPC node, with a stream that the test plays: which sends are answered when,
// in whatever order gRPC's threads tell of events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "transport/grpc/link.h"
#include "transport/grpc/piece.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using LinkPiece = std::vector<std::byte>;

class HeldStream : public GrpcStream {
 public:
  void Start(StreamEvents) override {}
  void Read() override {}
  void Write(std::span<const std::byte> head, std::span<const std::byte> data) override {
    written.emplace_back(head.begin(), head.end());
    written.back().insert(written.back().end(), data.begin(), data.end());
  }
  void Release(std::deque<LinkPiece> pieces) override { last = std::move(pieces); }

  std::vector<LinkPiece> written;
  std::optional<std::deque<LinkPiece>> last;  // once it is released
};

// Node 0's link to node 1, both ways open.
class GrpcLinkTest : public testing::Test {
 protected:
  GrpcLinkTest()
      : inbox_({1, 1, 0}, {{0, "rank 0", ""}, {1, "rank 1", ""}}, FabricLimits()),
        link_(1, &inbox_, &stream_) {
    link_.Welcome();
    link_.Written(true);
  }

  static Frame FrameOf(int sender, std::span<const std::byte> payload) {
    return Inbox({1, 1, sender}, {}, FabricLimits()).MakeFrame({}, {}, {payload});
  }
  void Send(std::span<const std::byte> payload) {
    link_.Send(FrameOf(0, payload), payload,
               [this](const Status& status) { answers_.push_back(status); });
  }
  const std::vector<Status>& Answers() {
    inbox_.RunAnswers();
    return answers_;
  }
  // Of a message of node 1's, whole.
  void Arrive(size_t bytes) {
    const Frame frame = FrameOf(1, LinkPiece(bytes));
    LinkPiece piece(1 + sizeof frame + bytes);
    piece[0] = static_cast<std::byte>(PieceKind::kStart);
    std::memcpy(&piece[1], &frame, sizeof frame);
    ASSERT_EQ(link_.Arrived(piece), OkStatus());
  }

  HeldStream stream_;
  Inbox inbox_;
  GrpcLink link_;
  std::vector<Status> answers_;
};

TEST_F(GrpcLinkTest, WhatThePeerHasTakenIsSentThoughItClosesBeforeTheWriteIsToldOf) {
  const LinkPiece payload(100);
  Send(payload);
  ASSERT_EQ(stream_.written.size(), 2u);
  EXPECT_THAT(Answers(), IsEmpty());
  const uint64_t taken = sizeof(Frame) + payload.size();
  ASSERT_EQ(link_.Arrived(MakePiece(PieceKind::kTaken, taken)), OkStatus());
  link_.Fail(Unavailable("it closed its connection"));
  EXPECT_THAT(Answers(), ElementsAre(OkStatus()));
}

TEST_F(GrpcLinkTest, WhatThePeerHasNotTakenIsLostWithIt) {
  const LinkPiece payload(100);
  Send(payload);
  ASSERT_EQ(link_.Arrived(MakePiece(PieceKind::kTaken, sizeof(Frame))), OkStatus());
  link_.Fail(Unavailable("it closed its connection"));
  ASSERT_EQ(Answers().size(), 1u);
  EXPECT_EQ(Answers()[0].code(), StatusCode::kUnavailable);
}

// A peer that is starved for its linger time cancels the stream, and what it has taken is not
// heard.
TEST_F(GrpcLinkTest, AStreamThatIsOverWaitsForTheWriteThatIsToBeToldOf) {
  const LinkPiece payload(100);
  for (const bool left : {true, false}) {
    HeldStream stream;
    GrpcLink link(1, &inbox_, &stream);
    link.Welcome();
    link.Written(true);
    answers_.clear();
    for (int i = 0; i < 2; ++i) {  // the second is not written any more
      link.Send(FrameOf(0, payload), payload,
                [this](const Status& status) { answers_.push_back(status); });
    }
    link.Over("it closed its connection");
    ASSERT_FALSE(link.ended());
    link.Written(left);
    EXPECT_EQ(stream.written.size(), 2u) << "a sign of life and the first";
    ASSERT_TRUE(link.ended());
    link.Fail(Unavailable("it closed its connection"));
    ASSERT_EQ(Answers().size(), 2u);
    EXPECT_EQ(answers_[0].ok(), left);
    EXPECT_EQ(answers_[1].code(), StatusCode::kUnavailable);
  }
}

TEST_F(GrpcLinkTest, ACloseSaysWhatWasTakenBeforeItsReason) {
  const LinkPiece payload(100);
  Send(payload);  // it is being written, so that nothing else can be
  Arrive(50);
  link_.Close(Aborted("over"), MakePiece(PieceKind::kFarewell, 1));
  ASSERT_TRUE(stream_.last.has_value());
  EXPECT_THAT(*stream_.last, ElementsAre(MakePiece(PieceKind::kTaken, sizeof(Frame) + 50),
                                         MakePiece(PieceKind::kFarewell, 1)));
  EXPECT_THAT(Answers(), ElementsAre(OkStatus()));
}

}  // namespace
}  // namespace ringwood
