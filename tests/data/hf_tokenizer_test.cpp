// tokenizer.json as a whole: what is refused, what hostile texts do, and that neither threads nor cuts change an id.
#include <fmt/format.h>

#include "data/documents.h"
#include "data/hf/tokenizer.h"
#include "data/sentencepiece_train.h"
#include "data/text_settings.h"
#include "data/tokenizer_export.h"
#include "data/utf8.h"
#include "hf_files.h"
#include "testing.h"

namespace athanor::data {
namespace {

using std::string_literals::operator""s;
constexpr const char* kMark = "\u2581";

const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"t", "h"},   {"th", "e"},          {"\u0120", "the"}, {"a", "a"},
    {"aa", "aa"}, {"\u0120", "\u0120"}, {"i", "n"}};

/// Like Gemma: a mark for each space, no words, bytes for what is not known.
Json gemma_like() {
  std::vector<std::string> tokens = {"<pad>", "<eos>", "<bos>", "<unk>"};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
  }
  for (const char* token :
       {kMark, "a", "b", "e", "h", "i", "n", "t", ">", "<", "/", "\u65E5", "\u672C"}) {
    tokens.emplace_back(token);
  }
  Json json = character_json(tokens, {{kMark, kMark},
                                      {"t", "h"},
                                      {"th", "e"},
                                      {kMark, "the"},
                                      {">", kMark},
                                      {"a", "a"},
                                      {"aa", "aa"},
                                      {"\u65E5", "\u672C"},
                                      {"i", "n"}});
  json["model"]["byte_fallback"] = true;
  json["model"]["fuse_unk"] = true;
  json["model"]["unk_token"] = "<unk>";
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}}}}};
  for (int i = 0; i < 4; ++i)
    json["added_tokens"].push_back(added_token(i, tokens[static_cast<size_t>(i)], true));
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<bos>", {{"id", "<bos>"}, {"ids", {2}}, {"tokens", {"<bos>"}}}}}}};
  return json;
}

std::vector<std::unique_ptr<Tokenizer>> samples() {
  std::vector<std::unique_ptr<Tokenizer>> samples;
  samples.push_back(make_hf(byte_level_json(kMerges)));
  samples.push_back(make_hf(gemma_like()));
  Json sequence = byte_level_json(kMerges);
  sequence["normalizer"] = {{"type", "NFC"}};
  sequence["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers",
                                {{{"type", "Split"},
                                  {"pattern", {{"Regex", "[^a-z]|[a-z]+"}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}},
                                 {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", false}}}}};
  samples.push_back(make_hf(sequence));
  return samples;
}

TEST(HfTokenizer, DecodingIsTheInverseOfEncoding) {
  for (const auto& tokenizer : samples()) {
    std::vector<std::string> texts = hostile_texts();
    for (const std::string& text : sample_corpus(10, 5)) texts.push_back(text);
    for (const std::string& text : texts) {
      if (text == "</s><s><unk><0x0A>" || text.find("\xCC\x81") != std::string::npos) continue;
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text), false), text);
    }
  }
}

TEST(HfTokenizer, MergesInOrderOfRank) {
  const auto bytes = make_hf(byte_level_json(kMerges));
  const auto pieces_of = [&](const std::string& text) {
    std::vector<std::string> pieces;
    for (const int32_t id : bytes->encode(text)) pieces.push_back(bytes->piece(id));
    return pieces;
  };
  EXPECT_EQ(pieces_of("the theaaaaa"), (std::vector<std::string>{"the", "\u0120the", "aaaa", "a"}));
  EXPECT_EQ(bytes->words("the theaaaaa"), (std::vector<std::string>{"the", " theaaaaa"}));
  const auto gemma = make_hf(gemma_like());
  std::vector<int32_t> with_special = gemma->encode(" the>");
  gemma->add_special(with_special);
  EXPECT_EQ(with_special,
            (std::vector<int32_t>{2, gemma->encode(" the")[0], gemma->encode(">")[0]}));
  EXPECT_EQ(gemma->special().bos, 2);
  EXPECT_EQ(gemma->special().eos, 1);
  EXPECT_EQ(gemma->special().unk, 3);
  EXPECT_EQ(gemma->special().pad, 0);
}

TEST(HfTokenizer, AWordMeansTheSameAloneAndInALongText) {
  // Long texts without words are cut where no merge reaches across; whatever stands around, the ids are those of a model
  // that is asked for all at once, which a cache that knows no word and no cut would give.
  RandomStream random(7, 2);
  static const char* const kParts[] = {"a",      "b", "aa", " ",      "  ",     "the",
                                       "in",     ">", "> ", "\u65E5", "\u672C", "\u65E5\u672C",
                                       "\u00E9", "<", "/",  " the",   "x",      "\n"};
  Json ignoring = gemma_like();
  ignoring["model"]["ignore_merges"] = true;  // such a model never cuts
  const auto whole = make_hf(ignoring);
  const auto cutting = make_hf(gemma_like());
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t n = random.below(40); n > 0; --n) text += kParts[random.below(std::size(kParts))];
    ASSERT_EQ(cutting->encode(text + "aaaaaaaaaaaaaaaaaaaa"),
              whole->encode(text + "aaaaaaaaaaaaaaaaaaaa"))
        << text;
  }
}

TEST(HfTokenizer, ManyThreadsEncodeTheSameAlsoWithinALongText) {
  std::string large;
  for (const std::string& text : sample_corpus(4000, 9)) large += text;
  ASSERT_GT(large.size(), size_t{2} << 20);
  for (const auto& tokenizer : samples()) {
    const std::vector<std::string> texts = {large, "short", large.substr(1)};
    const auto all = encode_all(*tokenizer, texts, Threads(4));
    EXPECT_TRUE(all == encode_all(*tokenizer, texts, Threads(1)));
    for (size_t i = 0; i < texts.size(); ++i) ASSERT_TRUE(all[i] == tokenizer->encode(texts[i]));
  }
  EXPECT_GE(samples()[0]->safe_cuts(large, 1 << 19).size(), 3u);
  EXPECT_GE(samples()[1]->safe_cuts(large, 1 << 19).size(), 3u);
  EXPECT_EQ(samples()[2]->safe_cuts(large, 1 << 19).size(),
            0u);  // nothing is known of that pattern
}

TEST(HfTokenizer, ATokenThatReachesAcrossForbidsCuts) {
  const std::string text(3 << 20, 'x');
  const std::string spaced = text + " " + text;
  const auto cuts = [&](Json token) {
    Json json = byte_level_json(kMerges);
    token["id"] = json["model"]["vocab"].size();
    json["added_tokens"].push_back(token);
    return make_hf(json)->safe_cuts(spaced, 1 << 20).size();
  };
  EXPECT_EQ(cuts(added_token(0, "new")), 1u);
  EXPECT_EQ(cuts(added_token(0, "new york")), 0u);
  Json strips = added_token(0, "xyx");
  strips["rstrip"] = true;
  EXPECT_EQ(cuts(strips), 0u);
  Json normalized = added_token(0, "x\u2581");
  normalized["normalized"] = true;
  EXPECT_EQ(cuts(normalized), 0u);
}

TEST(HfTokenizer, HostileTextsAreNotQuadratic) {
  // Quadratic work on a megabyte would not end before this test is given up on.
  for (const auto& tokenizer : samples()) {
    for (const std::string& part : {"a"s, " "s, "\n"s, "\u00E9"s, "\u0301\u0316"s, "\u65E5\u672C"s,
                                    "<"s, "a\u0301"s, "'"s, "\0"s, "1"s}) {
      std::string text;
      while (text.size() < (size_t{1} << 20)) text += part;
      ASSERT_FALSE(tokenizer->encode(text).empty());
    }
  }
}

TEST(HfTokenizer, StreamsOfAnyIdsNeverCutACharacter) {
  for (const auto& tokenizer : samples()) {
    RandomStream random(11, 3);
    for (int round = 0; round < 300; ++round) {
      const auto stream = tokenizer->stream_decoder(round % 2 == 0);
      std::vector<int32_t> ids;
      std::string text;
      for (uint64_t n = random.below(40); n > 0; --n) {
        ids.push_back(static_cast<int32_t>(random.below(290)) - 1);
        const std::string part = stream->push(ids.back());
        ASSERT_EQ(valid_utf8_prefix(part), part.size());
        text += part;
      }
      text += stream->finish();
      ASSERT_EQ(text, tokenizer->decode(ids, round % 2 == 0));
    }
  }
}

TEST(HfTokenizer, UnknownCharactersAreFusedOrDropped) {
  Json json = character_json({"<unk>", "a", "b"}, {});
  EXPECT_EQ(make_hf(json)->encode("xaxxb"), (std::vector<int32_t>{1, 2}));
  json["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(make_hf(json)->encode("xaxxb"), (std::vector<int32_t>{0, 1, 0, 0, 2}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(make_hf(json)->encode("xaxxb"), (std::vector<int32_t>{0, 1, 0, 2}));
  // Also in words so long that they are cut where no merge joins: never between two that are unknown.
  const std::string ascii(30, 'x');
  EXPECT_EQ(make_hf(json)->encode("a" + ascii + "b"), (std::vector<int32_t>{1, 0, 2}));
  std::string others;
  for (int i = 0; i < 20; ++i) others += "\u00E9";
  EXPECT_EQ(make_hf(json)->encode("a" + others + "b"), (std::vector<int32_t>{1, 0, 2}));
}

TEST(HfTokenizer, NormalizedAddedTokensAreDecodedToWhatTheyAreNormalizedTo) {
  Json json = byte_level_json({});
  json["normalizer"] = {{"type", "Lowercase"}};
  const auto add = [&](int id, const char* content, bool normalized, bool special) {
    Json token = added_token(id, content, special);
    token["normalized"] = normalized;
    json["added_tokens"].push_back(token);
  };
  add(256, "<A>", true, false);
  add(257, "<B>", false, false);
  add(258, "<C>", true, true);
  add(259, "<d>", true, true);
  add(260, "<E>", false, true);
  const auto tokenizer = make_hf(json);
  const std::vector<int32_t> ids = {256, 257, 258, 259, 260};
  EXPECT_EQ(tokenizer->encode("<A><B><C><D><E>"), ids);
  EXPECT_EQ(tokenizer->decode(ids, false), "<a><B><c><d><E>");
  EXPECT_EQ(tokenizer->decode(ids, true), "<a><B><c>")
      << "a token is special by its spelling, which of <C> has changed";
}

TEST(HfTokenizer, TokensAreApartWhereThereIsNoDecoder) {
  Json json = character_json({"a", "b"}, {});
  const std::vector<int32_t> ids = {0, 1, 0};
  EXPECT_EQ(make_hf(json)->decode(ids), "a b a");
  json["decoder"] = nullptr;
  EXPECT_EQ(make_hf(json)->decode(ids), "a b a");
  json["decoder"] = {{"type", "Sequence"}, {"decoders", Json::array()}};
  EXPECT_EQ(make_hf(json)->decode(ids), "aba") << "one without a step is one";
  json["decoder"] = {{"type", "Replace"}, {"pattern", {{"Regex", "$"}}}, {"content", "!"}};
  EXPECT_EQ(make_hf(json)->decode(ids), "a!b!a!");
  EXPECT_EQ(make_hf(json)->decode({}), "");
}

TEST(HfTokenizer, ReadsWhatIsWrittenForASentencePieceModel) {
  const std::vector<std::string> texts = sample_corpus(200, 1);
  const auto documents = read_texts(texts);
  const auto bpe =
      train_sentencepiece(*documents, {.kind = TokenizerKind::kBpe, .vocab_size = 700});
  const auto files = bpe->files();
  ASSERT_EQ(files[1].first, "tokenizer.json");
  const auto tokenizer = make_hf_tokenizer({files[1], files[2]}, "t.json");
  EXPECT_EQ(tokenizer->vocab_size(), bpe->vocab_size());
  EXPECT_EQ(tokenizer->special().eos, bpe->special().eos);
  std::vector<std::string> all = sample_corpus(30, 7);
  for (const std::string& text : hostile_texts()) {
    if (text.find("</s>") == std::string::npos) all.push_back(text);  // which is a token there
  }
  for (const std::string& text : all) {
    ASSERT_EQ(tokenizer->encode(text), bpe->encode(text)) << text;
    ASSERT_EQ(tokenizer->decode(bpe->encode(text)), text);
  }
}

TEST(HfTokenizer, ItsFilesGoAlongByteForByte) {
  const TemporaryFolder folder;
  const std::string json = fmt::format("\n{}\n\n", gemma_like().dump(3));
  const std::string config =
      "{ \"bos_token\": {\"content\": \"<pad>\"},\n\"eos_token\":\"<eos>\", \"add_bos_token\": "
      "true }";
  folder.write("in/tokenizer.json", json);
  folder.write("in/tokenizer_config.json", config);
  folder.write("in/chat_template.jinja", "{{ x }}");
  const auto tokenizer = load_tokenizer(folder / "in");
  EXPECT_EQ(tokenizer->special().bos, 0);
  export_tokenizer(*tokenizer, (fs::create_directories(folder / "out"), folder / "out"));
  EXPECT_EQ(read_file(folder / "out/tokenizer.json"), json);
  EXPECT_EQ(read_file(folder / "out/tokenizer_config.json"), config);
  EXPECT_EQ(read_file(folder / "out/chat_template.jinja"), "{{ x }}");
  EXPECT_EQ(load_tokenizer(folder / "out")->identity(), tokenizer->identity());
  EXPECT_EQ(load_tokenizer(folder / "in/tokenizer.json")->special().bos, 0);
  // A file that came alone gets a config, so that what was found out of it is not lost.
  export_tokenizer(*load_tokenizer(folder.write("alone", json)),
                   (fs::create_directories(folder / "again"), folder / "again"));
  EXPECT_EQ(load_tokenizer(folder / "again")->special().bos, 2);
  EXPECT_EQ(load_tokenizer(folder / "again")->special().eos, 1);
  // A model that was shown its text so leaves the file alone; another says what it was.
  EXPECT_EQ(model_tokenizer_files(*tokenizer, {.bos = true})[1].second, config);
  const auto changed = model_tokenizer_files(*tokenizer, {.bos = false, .sequence = 128})[1].second;
  EXPECT_EQ(parse_text_settings(changed, "x").sequence, 128);
  EXPECT_FALSE(parse_text_settings(changed, "x").bos);
  folder.write("in/tokenizer_config.json", "[]");
  expect_error(ExitCode::kData, {"tokenizer_config.json", "not a JSON object"},
               [&] { load_tokenizer(folder / "in"); });
}

/// What gemma_like() puts around a text (id 5) with these processors in a sequence.
std::vector<int32_t> around(const std::vector<Json>& processors) {
  Json json = gemma_like();
  json["post_processor"] = {{"type", "Sequence"}, {"processors", processors}};
  std::vector<int32_t> ids = {5};
  make_hf(json)->add_special(ids);
  return ids;
}

/// As Hugging Face's library does: a template leaves a piece for each of its items, each of which the next processor takes
/// for a text, and two of which a further template takes for a pair.
TEST(HfTokenizer, ProcessorsBehindATemplateDealWithEachOfItsPieces) {
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  const Json bos = {{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}};
  const auto template_of = [&](const Json& single, const Json& pair) {
    Json made = gemma_like()["post_processor"];
    made["single"] = single;
    made["pair"] = pair;
    return made;
  };
  const Json front = template_of({bos, text}, {bos, text, second});
  const Json back = template_of({text, bos}, {text, bos, second});
  const Json both = template_of({bos, text, bos}, {text, second});
  Json roberta = {{"type", "RobertaProcessing"}, {"cls", {"<pad>", 0}}, {"sep", {"<eos>", 1}}};
  roberta["trim_offsets"] = true;
  roberta["add_prefix_space"] = false;
  Json bert = roberta;
  bert["type"] = "BertProcessing";
  bert.erase("trim_offsets");
  bert.erase("add_prefix_space");
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(around({roberta, roberta}), (Ids{0, 0, 5, 1, 1}));
  EXPECT_EQ(around({front, roberta}), (Ids{0, 2, 1, 1, 5, 1}));
  EXPECT_EQ(around({back, roberta}), (Ids{0, 5, 1, 1, 2, 1}));
  EXPECT_EQ(around({both, bert}), (Ids{0, 2, 1, 5, 1, 2, 1}));
  EXPECT_EQ(around({back, roberta, front}), (Ids{2, 0, 5, 1, 1, 2, 1}));
  EXPECT_EQ(around({front, back}), (Ids{2, 2, 5}));
  EXPECT_EQ(around({bert, both}), (Ids{2, 0, 5, 1, 2}));
  expect_error(ExitCode::kData, {"t.json: ", "processors[1]", "leaves 3 pieces"},
               [&] { around({both, front}); });
  const Json headless = template_of({text}, {text, bos});
  expect_error(ExitCode::kData, {"processors[1].pair", "no place for the text"},
               [&] { around({front, headless}); });
}

/// gemma_like() after `change` must be refused with these words.
template <class F>
void refused(const std::vector<std::string>& parts, F&& change) {
  Json json = gemma_like();
  change(json);
  std::vector<std::string> all = parts;
  all.emplace_back("t.json: ");
  expect_error(ExitCode::kData, all, [&] { make_hf(json); });
}

TEST(HfTokenizer, WhatIsNotKnownIsRefusedByName) {
  refused({"normalizer", "\"Precompiled\""},
          [](Json& j) { j["normalizer"] = {{"type", "Precompiled"}}; });
  refused({"pre_tokenizer", "\"UnicodeScripts\""},
          [](Json& j) { j["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; });
  refused({"decoder.decoders[0]", "\"CTC\""},
          [](Json& j) { j["decoder"]["decoders"][0] = {{"type", "CTC"}}; });
  refused({"post_processor", "\"Odd\""}, [](Json& j) { j["post_processor"] = {{"type", "Odd"}}; });
  for (const char* type : {"Unigram", "WordPiece", "WordLevel"}) {
    refused({"model", type}, [&](Json& j) { j["model"]["type"] = type; });
  }
  for (const char* type : {"BertNormalizer", "Nmt", "ByteLevel"}) {
    refused({"normalizer", type}, [&](Json& j) { j["normalizer"] = {{"type", type}}; });
  }
  for (const char* type : {"BertPreTokenizer", "Whitespace", "FixedLength"}) {
    refused({"pre_tokenizer", type}, [&](Json& j) { j["pre_tokenizer"] = {{"type", type}}; });
  }
  for (const char* type : {"WordPiece", "BPEDecoder"}) {
    refused({"decoder", type}, [&](Json& j) { j["decoder"] = {{"type", type}}; });
  }
  refused({"pre_tokenizer", "\"first\" behind another step"}, [](Json& j) {
    const Json digits = {{"type", "Digits"}};
    const Json mark = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}};
    j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, mark}}};
  });
  refused({"pretokenizers[1]", "Metaspace behind ByteLevel"}, [](Json& j) {
    const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    const Json mark = {{"type", "Metaspace"}, {"replacement", "_"}};
    j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {level, mark}}};
  });
  refused({"model.dropout"}, [](Json& j) { j["model"]["dropout"] = 0.1; });
  refused({"model.end_of_word_suffix"}, [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; });
  refused({"model", "\"new_switch\""}, [](Json& j) { j["model"]["new_switch"] = true; });
  refused({"the file", "\"new_part\""}, [](Json& j) { j["new_part"] = 1; });
  refused({"truncation"}, [](Json& j) { j["truncation"] = {{"max_length", 5}}; });
  refused({"padding"}, [](Json& j) { j["padding"] = Json::object(); });
  refused({"normalizer", "\"how\""}, [](Json& j) { j["normalizer"]["how"] = 1; });
  refused({"pre_tokenizer.behavior", "\"Split\""},
          [](Json& j) { j["pre_tokenizer"]["behavior"] = "Split"; });
}

TEST(HfTokenizer, BrokenFilesAreRefusedWithTheirPlace) {
  refused({"model.vocab", "\"a\"", "has already"},
          [](Json& j) { j["model"]["vocab"]["b"] = j["model"]["vocab"]["a"]; });
  refused({"holes"}, [](Json& j) { j["model"]["vocab"]["b"] = j["model"]["vocab"].size(); });
  refused({"holes"}, [](Json& j) { j["model"]["vocab"]["b"] = 200000000; });
  refused({"model.vocab", "-1"}, [](Json& j) { j["model"]["vocab"]["b"] = -1; });
  refused({"model.vocab", "\"b\"", "string"}, [](Json& j) { j["model"]["vocab"]["b"] = "7"; });
  refused({"the merge 9", "\"zz\""}, [](Json& j) { j["model"]["merges"].push_back({"a", "zz"}); });
  refused({"the merge 9", "\"ab\""}, [](Json& j) { j["model"]["merges"].push_back({"a", "b"}); });
  refused({"merges[9]", "3 parts"},
          [](Json& j) { j["model"]["merges"].push_back({"a", "a", "a"}); });
  refused({"merges[9]", "\"aa\""}, [](Json& j) { j["model"]["merges"].push_back("aa"); });
  refused({"merges[9]"}, [](Json& j) { j["model"]["merges"].push_back(1); });
  refused({"no merges"}, [](Json& j) { j["model"].erase("merges"); });
  refused({"no vocab"}, [](Json& j) { j["model"].erase("vocab"); });
  refused({"model.unk_token", "\"<u>\""}, [](Json& j) { j["model"]["unk_token"] = "<u>"; });
  refused({"added_tokens[4]", "empty"},
          [](Json& j) { j["added_tokens"].push_back(added_token(900, "")); });
  refused({"added_tokens[4]", "second time"},
          [](Json& j) { j["added_tokens"].push_back(added_token(0, "<pad>")); });
  refused({"added_tokens[4]", "\"<new>\"", "has already"},
          [](Json& j) { j["added_tokens"].push_back(added_token(0, "<new>")); });
  refused({"added_tokens[4]", "holes"},
          [](Json& j) { j["added_tokens"].push_back(added_token(5000, "<new>")); });
  refused({"added_tokens[4]", "\"a\"", "model.vocab gives"},
          [](Json& j) { j["added_tokens"].push_back(added_token(0, "a")); });
  refused({"added_tokens[4]", "is next"}, [](Json& j) {
    const auto size = static_cast<int>(j["model"]["vocab"].size());
    j["added_tokens"].push_back(added_token(size + 1, "<second>"));
    j["added_tokens"].push_back(added_token(size, "<first>"));
  });
  refused({"added_tokens[4]", "is next"}, [](Json& j) {  // a hole that an added token fills
    const int id = j["model"]["vocab"]["b"];
    j["model"]["vocab"].erase("b");
    j["added_tokens"].push_back(added_token(id, "<b>"));
  });
  refused({"empty after normalization"}, [](Json& j) {
    j["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
    Json token = added_token(static_cast<int>(j["model"]["vocab"].size()), "\n");
    token["normalized"] = true;
    j["added_tokens"].push_back(token);
  });
  refused({"pre_tokenizer.pattern", "does not compile", "byte 2", "\"a(\""},
          [](Json& j) { j["pre_tokenizer"]["pattern"] = {{"Regex", "a("}}; });
  refused({"normalizer.content", "not a text"}, [](Json& j) { j["normalizer"]["content"] = 5; });
  refused({"post_processor.single", "no place for the text"},
          [](Json& j) { j["post_processor"]["single"].erase(1); });
  refused({"special_tokens"}, [](Json& j) { j["post_processor"]["special_tokens"].clear(); });
  refused({"ids[0]", "999"},
          [](Json& j) { j["post_processor"]["special_tokens"]["<bos>"]["ids"][0] = 999; });
  refused({"the file", "model"}, [](Json& j) { j.erase("model"); });
}

TEST(HfTokenizer, DamagedFilesAreRefusedOrHarmless) {
  const std::string good = byte_level_json(kMerges).dump();
  int refusals = 0;
  const auto attempt = [&](const std::string& content) {
    try {
      const auto tokenizer = make_hf_tokenizer({{"tokenizer.json", content}}, "t.json");
      for (const int32_t id : tokenizer->encode("the king \u00E9")) {
        ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with("t.json: ")) << error.what();
      ++refusals;
    }
  };
  for (size_t size = 0; size < good.size(); size += 13) attempt(good.substr(0, size));
  EXPECT_EQ(refusals, static_cast<int>((good.size() + 12) / 13));
  RandomStream random(3, 3);
  for (int i = 0; i < 1000; ++i) {
    std::string changed = good;
    changed[random.below(changed.size())] ^= static_cast<char>(1 + random.below(255));
    attempt(changed);
  }
  std::string deep(100000, '[');
  attempt(fmt::format("{{\"model\":{}", deep));
}

}  // namespace
}  // namespace athanor::data
