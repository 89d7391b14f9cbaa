#include "infer/completion.h"

#include <gtest/gtest.h>

#include "infer/tiny_model.h"

namespace athanor::infer {
namespace {

using test::ScratchFolder;
using test::text_config;
using test::write_model;

/// The code and text of what `work` throws.
template <class F>
std::pair<ExitCode, std::string> failure(F work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ExitCode::kDone, ""};
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : 4;
    if (lead >> 6 == 2 || lead > 0xF4 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if (static_cast<unsigned char>(text[i + k]) >> 6 != 2) return false;
    }
    i += length;
  }
  return true;
}

TEST(ParseIds, ReadsWhatIsWrittenAndNamesWhatIsNot) {
  EXPECT_EQ(parse_ids("1,2,3", 10), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(parse_ids(" 0 , 9 ", 10), (std::vector<int32_t>{0, 9}));
  for (const char* text : {"", "1,", ",1", "1,,2", "x", "1 2", "1.5", "0x1", "1;2"}) {
    const auto [code, message] = failure([&] { parse_ids(text, 10); });
    EXPECT_EQ(code, ExitCode::kUsage) << text;
    EXPECT_NE(message.find("1,2,3"), std::string::npos) << message;
  }
  for (const char* text : {"10", "1,10", "-1", "99999999999999999999"}) {
    const auto [code, message] = failure([&] { parse_ids(text, 10); });
    EXPECT_EQ(code, ExitCode::kUsage) << text;
    EXPECT_NE(message.find("outside the model's vocabulary of 10"), std::string::npos) << message;
  }
}

TEST(Complete, StreamsWholeCharactersThatJoinToTheText) {
  const ScratchFolder folder;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    CompletionRequest request;
    request.model = write_model(folder / "model", text_config(), {.seed = seed});
    request.prompt = "prompt";
    request.writing.max_tokens = 50;
    request.writing.ignore_eos = true;
    request.writing.sampling.temperature = 3;  // bytes of all kinds, so broken characters too
    request.writing.sampling.seed = seed;
    std::string joined;
    int pieces = 0;
    const Completion completion = complete(request, [&](std::string_view piece) {
      EXPECT_TRUE(is_utf8(piece));
      joined += piece;
      ++pieces;
    });
    EXPECT_EQ(completion.ids.size(), 50u);
    EXPECT_EQ(completion.text, joined);
    EXPECT_EQ(joined, data::make_byte_tokenizer()->decode(completion.ids));
    EXPECT_GT(pieces, 10);
  }
}

TEST(Complete, ACharacterThatIsCutOffAtTheEndIsStillTold) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.model = write_model(folder / "model", text_config());
  request.prompt = "prompt";
  request.writing.ignore_eos = true;
  request.writing.sampling.temperature = 5;
  int cut_off = 0;
  for (int64_t tokens = 1; tokens <= 24; ++tokens) {
    request.writing.max_tokens = tokens;
    std::string joined;
    const Completion completion = complete(request, [&](std::string_view p) { joined += p; });
    EXPECT_EQ(joined, data::make_byte_tokenizer()->decode(completion.ids));
    EXPECT_EQ(completion.text, joined);
    const int32_t last = completion.ids.back();
    cut_off += last >= 0xC2 && last <= 0xF4 ? 1 : 0;  // the first byte of a longer character
  }
  EXPECT_GT(cut_off, 0);
}

TEST(Complete, PutsBosInFrontWhereTheModelWasTrainedWithIt) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.writing.max_tokens = 1;
  request.prompt = "four";
  const auto ignore = [](std::string_view) {};
  request.model = write_model(folder / "with", text_config(), {.bos = true});
  EXPECT_EQ(complete(request, ignore).prompt_tokens, 5);
  const std::vector<int32_t> with_bos = complete(request, ignore).ids;
  request.ids = "256,102,111,117,114";
  request.prompt.reset();
  EXPECT_EQ(complete(request, ignore).ids, with_bos);

  request.ids.reset();
  request.prompt = "";
  EXPECT_EQ(complete(request, ignore).prompt_tokens, 1);

  request.model = write_model(folder / "without", text_config(), {.bos = false});
  const auto [code, message] = failure([&] { complete(request, ignore); });
  EXPECT_EQ(code, ExitCode::kUsage);
  EXPECT_NE(message.find("prompt is empty"), std::string::npos);
  request.prompt = "four";
  EXPECT_EQ(complete(request, ignore).prompt_tokens, 4);
}

TEST(Complete, ServesIdsWithoutATokenizer) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.model = write_model(folder / "model", text_config(), {.tokenizer = false});
  request.ids = "5,6";
  request.writing.max_tokens = 3;
  request.writing.ignore_eos = true;
  std::string out;
  const Completion completion = complete(request, [&](std::string_view piece) { out += piece; });
  EXPECT_FALSE(completion.text.has_value());
  ASSERT_EQ(completion.ids.size(), 3u);
  EXPECT_EQ(parse_ids(out, 258), completion.ids);

  request.ids.reset();
  request.prompt = "text";
  const auto [code, message] = failure([&] { complete(request, [](std::string_view) {}); });
  EXPECT_EQ(code, ExitCode::kUsage);
  EXPECT_NE(message.find("--ids"), std::string::npos) << message;
}

TEST(Complete, RefusesWhatTheContextCannotHold) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.model = write_model(folder / "model", text_config());  // 64 positions
  request.prompt = std::string(40, 'a');
  request.writing.ignore_eos = true;
  const auto ignore = [](std::string_view) {};
  request.writing.max_tokens = 24;
  EXPECT_EQ(complete(request, ignore).ids.size(), 24u);
  request.writing.max_tokens = 25;
  const auto [code, message] = failure([&] { complete(request, ignore); });
  EXPECT_EQ(code, ExitCode::kUsage);
  EXPECT_NE(message.find("context of 64"), std::string::npos) << message;
  request.writing.max_tokens.reset();
  EXPECT_EQ(complete(request, ignore).ids.size(), 24u) << "the default fills the context";
  request.prompt = std::string(64, 'a');
  EXPECT_EQ(failure([&] { complete(request, ignore); }).first, ExitCode::kUsage);
  request.prompt = "a";
  for (const int64_t tokens : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    request.writing.max_tokens = tokens;
    EXPECT_EQ(failure([&] { complete(request, ignore); }).first, ExitCode::kUsage) << tokens;
  }
}

TEST(Complete, RefusesAPromptThatIsNoText) {
  const ScratchFolder folder;
  CompletionRequest request;
  request.model = write_model(folder / "model", text_config());
  const auto ignore = [](std::string_view) {};
  EXPECT_EQ(failure([&] { complete(request, ignore); }).first, ExitCode::kUsage) << "no prompt";
  request.prompt = "\xff";
  EXPECT_EQ(failure([&] { complete(request, ignore); }).first, ExitCode::kUsage);
  request.prompt = "a";
  request.ids = "1";
  EXPECT_EQ(failure([&] { complete(request, ignore); }).first, ExitCode::kUsage) << "both";
}

TEST(Complete, StopsAtEosUnlessToldToGoOn) {
  const ScratchFolder folder;
  CompletionRequest request;
  model::ModelConfig config = text_config();
  request.model = write_model(folder / "model", config);
  request.prompt = "abc";
  request.writing.max_tokens = 40;
  request.writing.ignore_eos = true;
  const auto ignore = [](std::string_view) {};
  const std::vector<int32_t> all = complete(request, ignore).ids;
  ASSERT_EQ(all.size(), 40u);

  config.eos = all[7];
  request.model = write_model(folder / "ends", config);
  EXPECT_EQ(complete(request, ignore).ids, all);
  request.writing.ignore_eos = false;
  const Completion ended = complete(request, ignore);
  EXPECT_EQ(ended.finish_reason, "eos");
  EXPECT_EQ(ended.ids.back(), all[7]);
  EXPECT_LE(ended.ids.size(), 8u);
}

}  // namespace
}  // namespace athanor::infer
