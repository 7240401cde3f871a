#include "wire/elsewhere.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

const std::string kFingerprint(64, 'a');

TEST(Elsewhere, AnAddressComesWithItsCertificate) {
  const Elsewhere own{"wss://b.weft.school.lan:8443", kFingerprint};
  EXPECT_EQ(EncodeElsewhere(own), "wss://b.weft.school.lan:8443#" + kFingerprint);
  EXPECT_EQ(DecodeElsewhere(EncodeElsewhere(own)), own);
  const Elsewhere trusted{"wss://b.weft.school.lan", ""};
  EXPECT_EQ(DecodeElsewhere(EncodeElsewhere(trusted)), trusted);
  EXPECT_EQ(DecodeElsewhere(EncodeElsewhere({})), Elsewhere());
}

TEST(Elsewhere, NothingIsCutOff) {
  const std::string named = "wss://" + std::string(60, 'b');
  EXPECT_EQ(EncodeElsewhere({named, kFingerprint}), named) << "both have no room";
  EXPECT_EQ(EncodeElsewhere({"wss://" + std::string(200, 'b'), ""}), "");
  EXPECT_EQ(EncodeElsewhere({"wss://" + std::string(49, 'b'), kFingerprint}).size(),
            kMostElsewhereBytes);
}

TEST(Elsewhere, ABrokenFingerprintNamesNobody) {
  for (const std::string& broken : {std::string(""), std::string(63, 'a'), std::string(65, 'a'),
                                    std::string(63, 'a') + "g", std::string(64, 'A')})
    EXPECT_EQ(DecodeElsewhere("wss://b#" + broken), Elsewhere()) << broken;
}

}  // namespace
}  // namespace weft::wire
