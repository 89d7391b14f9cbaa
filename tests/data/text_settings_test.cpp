#include "data/text_settings.h"

#include <gtest/gtest.h>

#include "infer/tiny_model.h"

namespace athanor::data {
namespace {

TEST(TextSettings, TravelInTokenizerConfigAndLeaveTheTokenizerAlone) {
  const test::ScratchFolder folder;
  const auto tokenizer = make_byte_tokenizer();
  for (const TextSettings& settings :
       {TextSettings{true, 512}, TextSettings{false, 1}, TextSettings{true, std::nullopt}}) {
    for (const auto& [name, content] : model_tokenizer_files(*tokenizer, settings)) {
      folder.write(name, content);
    }
    const TextSettings read = read_text_settings(folder.path());
    EXPECT_EQ(read.bos, settings.bos);
    EXPECT_EQ(read.sequence, settings.sequence);
    EXPECT_EQ(load_tokenizer(folder.path())->identity(), tokenizer->identity());
    fs::remove(folder / "tokenizer_config.json");
  }
  EXPECT_FALSE(read_text_settings(folder.path()).bos) << "no file";
}

TEST(TextSettings, OtherProgramsFilesAreReadAndDamagedOnesRefused) {
  const test::ScratchFolder folder;
  const auto read = [&](const std::string& content) {
    folder.write("tokenizer_config.json", content);
    return read_text_settings(folder.path());
  };
  EXPECT_FALSE(read("{\"bos_token\": \"<s>\"}").bos);
  EXPECT_FALSE(read("{\"add_bos_token\": null}").bos);
  EXPECT_TRUE(read("{\"add_bos_token\": true}").bos);
  EXPECT_EQ(read("{\"model_max_length\": 1000000000000000019884624838656}").sequence, std::nullopt);
  EXPECT_EQ(read("{\"model_max_length\": -1}").sequence, std::nullopt);
  EXPECT_EQ(read("{\"model_max_length\": 18446744073709551615}").sequence, std::nullopt);
  EXPECT_EQ(read("{\"model_max_length\": 4096}").sequence, 4096);
  for (const char* bad : {"", "[]", "{\"add_bos_token\": 1}", "{\"add_bos_token\": \"yes\"}"}) {
    EXPECT_THROW(read(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace athanor::data
