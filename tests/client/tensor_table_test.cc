#include "client/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/names.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Table : public ::testing::Test {
 protected:
  Tensor Of(const std::string& name, uint64_t elements = 4) {
    Tensor tensor;
    tensor.spec = {name, elements, "dense", 1};
    tensor.data = memory_;
    return tensor;
  }

  SessionOptions options_ = [] {
    SessionOptions options;
    options.rank = 1;
    options.world = 4;
    options.momentum = 0.5;
    return options;
  }();
  TensorTable table_{options_};
  float memory_[8] = {};
};

TEST_F(Table, HasTheTensorsInTheReverseOrderOfRegistration) {
  for (const char* name : {"a", "b", "c"}) table_.Add(Of(name));
  const std::vector<TensorSpec> specs = table_.Specs();
  ASSERT_EQ(specs.size(), 3u);
  for (size_t id = 0; id < 3; ++id) {
    EXPECT_EQ(specs[table_.IndexOf(id).value].name, table_.name(id));
    EXPECT_EQ(table_.IdOf(table_.IndexOf(id)), id);
  }
  EXPECT_EQ(specs[0].name, "c");
  Group group;
  group.tensors = {0, 2};
  EXPECT_THAT(table_.IdsOf(group), ElementsAre(2, 0));
  EXPECT_EQ(table_.dense_bytes(), 48u);
}

TEST_F(Table, TellsTheCoordinatorWhatIsInForceForEachTensor) {
  Tensor own = Of("own");
  own.momentum = 0;
  own.clip_norm = 2;
  table_.Add(Of("plain"));
  table_.Add(own);
  v1::AgreeRequest request;
  table_.Describe(&request);
  ASSERT_EQ(request.tensors_size(), 2);
  EXPECT_EQ(request.tensors(0).name(), "own");
  EXPECT_EQ(request.tensors(0).momentum(), 0);
  EXPECT_EQ(request.tensors(0).clip_norm(), 2);
  EXPECT_EQ(request.tensors(1).momentum(), 0.5);
  EXPECT_EQ(table_[1].norm_limit, 1);  // clip_norm / sqrt(world)
}

TEST_F(Table, TheSmallestWireReachHoldsForAll) {
  for (const double reach : {1.0, 0.5, 0.7}) {
    Tensor tensor = Of(absl::StrCat("to ", reach));
    tensor.wire_reach = reach;
    table_.Add(tensor);
  }
  for (size_t id = 0; id < 3; ++id) EXPECT_EQ(table_[id].wire_reach, 0.5);
  for (const double wrong : {0.0, 0.2, 1.5, std::nan("")}) {
    Tensor tensor = Of("wrong");
    tensor.wire_reach = wrong;
    EXPECT_THAT(Message(table_.Check(tensor)), HasSubstr("'wrong' has wire_reach = "));
  }
}

TEST_F(Table, RefusesAnIdThatThereIsNot) {
  table_.Add(Of("a"));
  EXPECT_TRUE(table_.CheckId(0).ok());
  EXPECT_THAT(Message(table_.CheckId(1)), HasSubstr("rank 1: there is no tensor 1, 1 are"));
  EXPECT_EQ(table_.CheckId(-1).code(), StatusCode::kInvalidArgument);
}

TEST_F(Table, RefusesATensorThatIsElsewhereThanTheFirst) {
  table_.Add(Of("host"));
  Tensor device = Of("device");
  device.device = OnDevice{};
  EXPECT_THAT(Message(table_.Check(device)), HasSubstr("'device' is not where 'host' is"));
  EXPECT_EQ(table_.Check(Of("host")).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(table_.Check(Of("other")).ok());
}

std::string Refusal(const std::string& name) { return Message(CheckName("the name", name)); }

TEST(Names, AreUtf8WithoutControlCharacters) {
  for (const std::string name :
       {"w", "module.0.weight", "a b", "Gr\u00f6\u00dfe", "\u91cd\u307f", "\U0001f333", "'\"\\"}) {
    EXPECT_TRUE(CheckName("the name", name).ok()) << name;
  }
  EXPECT_TRUE(CheckName("the name", std::string(kMaxNameBytes, 'x')).ok());
}

TEST(Names, WhatTheyAreNotIsSaidInPrintableWords) {
  EXPECT_EQ(Refusal(""), "the name is empty");
  EXPECT_THAT(Refusal(std::string(kMaxNameBytes + 1, 'x')), HasSubstr("has 256 bytes, 255 are"));
  for (const std::string bad : {"\xff", "a\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_THAT(Refusal(bad), HasSubstr("is not UTF-8: '")) << testing::PrintToString(bad);
  }
  for (const std::string bad : {"a\nb", "\t", "a\x7f", "\xc2\x85", "\xe2\x80\xa8"}) {
    EXPECT_THAT(Refusal(bad), HasSubstr("control character")) << testing::PrintToString(bad);
  }
  EXPECT_EQ(Refusal(std::string("a\nb")), "the name has a control character at byte 1: 'a\\nb'");
  EXPECT_THAT(Refusal(std::string("a\0b", 3)), HasSubstr("control character at byte 1"));
}

}  // namespace
}  // namespace ringwood
