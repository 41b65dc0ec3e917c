#include "client/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::HasSubstr;

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
