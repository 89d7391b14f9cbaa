#include "data/bpe_train.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "data/bpe_train_files.h"
#include "data/bpe_train_merges.h"
#include "data/hf/byte_level.h"
#include "data/hf/space_mark.h"
#include "data/hf/tokenizer.h"
#include "data/hf/unicode.h"
#include "data/utf8.h"

namespace athanor::data {
namespace {

constexpr double kCoverage = 0.9999;  // of the characters of a text
constexpr size_t kCodes = 0x110000;

using hf::Character;
using hf::first_character;

/// The tokens that are there before anything is learned, special ones and bytes.
LearnedBpe first_tokens(const BpeTraining& options) {
  LearnedBpe bpe;
  bpe.byte_level = options.byte_level;
  if (options.byte_level) {
    bpe.tokens = {"<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"};
    bpe.pad = 0;
  } else {
    bpe.tokens = {"<unk>", "<s>", "</s>", "<pad>"};
    bpe.unk = 0;
    bpe.pad = 3;
  }
  bpe.bos = 1;
  bpe.eos = 2;
  for (const std::string& token : options.special) {
    if (token.empty()) throw usage_error("a special token is empty");
    if (valid_utf8_prefix(token) != token.size()) {
      throw usage_error(fmt::format("the special token '{}' is not UTF-8", token));
    }
    if (std::find(bpe.tokens.begin(), bpe.tokens.end(), token) != bpe.tokens.end()) {
      throw usage_error(fmt::format("the special token '{}' is there already", token));
    }
    if (first_character(token).bytes == token.size()) {
      throw usage_error(fmt::format(
          "the special token '{}' is a single character, which text is made of: use more", token));
    }
    bpe.tokens.push_back(token);
  }
  bpe.special = bpe.tokens.size();
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.push_back(options.byte_level ? hf::byte_characters()[static_cast<size_t>(byte)]
                                       : fmt::format("<0x{:02X}>", byte));
  }
  // In the order of the characters, by which Hugging Face's trainer decides between equals.
  if (options.byte_level) {
    std::sort(bytes.begin(), bytes.end(), [](const std::string& a, const std::string& b) {
      return first_character(a).code < first_character(b).code;
    });
  }
  for (const std::string& byte : bytes) {
    if (std::find(options.special.begin(), options.special.end(), byte) != options.special.end()) {
      throw usage_error(fmt::format("the special token '{}' is there already", byte));
    }
    bpe.tokens.push_back(byte);
  }
  if (static_cast<size_t>(options.vocab_size) < bpe.tokens.size()) {
    throw usage_error(
        fmt::format("a vocabulary of {} cannot be trained: {} special tokens and 256 bytes alone "
                    "take {} ids",
                    options.vocab_size, bpe.special, bpe.tokens.size()));
  }
  return bpe;
}

/// Calls visit(code) for each character of a word, spaces as marks.
template <class Visit>
void each_character(std::string_view word, Visit visit) {
  for (size_t at = 0; at < word.size();) {
    const Character c = first_character(word.data() + at);
    at += c.bytes;
    visit(c.code == U' ' ? hf::kSpaceMarkCode : c.code);
  }
}

/// The most frequent characters, of equals those of the lowest code, that cover enough of the text, but at most `most`:
/// in the order of their codes.
std::vector<char32_t> choose_alphabet(const WordCounts& counts, size_t most) {
  std::vector<uint64_t> count_of(kCodes);
  uint64_t all = 0;
  for (const WordTable& table : counts.tables) {
    table.each([&](std::string_view word, uint64_t, uint64_t count) {
      each_character(word, [&](char32_t c) {
        count_of[c] += count;
        all += count;
      });
    });
  }
  std::vector<std::pair<uint64_t, char32_t>> ranked;
  for (char32_t c = 0; c < kCodes; ++c) {
    if (count_of[c] > 0) ranked.emplace_back(count_of[c], c);
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<char32_t> alphabet;
  uint64_t covered = 0;
  for (const auto& [count, c] : ranked) {
    if (static_cast<double>(covered) >= kCoverage * static_cast<double>(all)) break;
    if (alphabet.size() == most) {
      log::warning(fmt::format(
          "the vocabulary has room for {} of the text's {} characters, {:.2f}% of the text: the "
          "others are spelled in bytes",
          most, ranked.size(), 100 * static_cast<double>(covered) / static_cast<double>(all)));
      break;
    }
    covered += count;
    alphabet.push_back(c);
  }
  std::sort(alphabet.begin(), alphabet.end());
  return alphabet;
}

/// Takes the words out of their tables, as rows of ids. A character without one ends a row: no merge reaches over it.
CountedWords take_words(WordCounts counts, const std::vector<int32_t>& id_of) {
  CountedWords words;
  uint64_t count = 0;
  uint64_t begin = 0;
  const auto end_row = [&] {
    const uint64_t length = words.ids.size() - begin;
    if (length > 1) {
      words.words.push_back({count, begin, static_cast<uint32_t>(length)});
    } else {
      words.ids.resize(begin);
    }
    begin = words.ids.size();
  };
  for (WordTable& table : counts.tables) {
    const WordTable taken = std::exchange(table, {});
    taken.each([&](std::string_view word, uint64_t, uint64_t occurrences) {
      count = occurrences;
      const auto add = [&](char32_t unit) {
        if (id_of[unit] >= 0) {
          words.ids.push_back(id_of[unit]);
        } else {
          end_row();
        }
      };
      if (id_of.size() == 256) {
        for (const char byte : word) add(static_cast<unsigned char>(byte));
      } else {
        each_character(word, add);
      }
      end_row();
    });
  }
  return words;
}

/// The id of each unit that words are made of, a byte or a character; −1: none. Adds the characters to the tokens.
std::vector<int32_t> unit_ids(LearnedBpe& bpe, const WordCounts& counts, size_t vocab_size) {
  if (bpe.byte_level) {
    std::vector<int32_t> ids(256);
    for (size_t id = bpe.special; id < bpe.tokens.size(); ++id) {
      const int byte = hf::byte_of_character(first_character(bpe.tokens[id]).code);
      ids[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
    }
    return ids;
  }
  std::vector<int32_t> ids(kCodes, -1);
  for (const char32_t c : choose_alphabet(counts, (vocab_size - bpe.tokens.size()) / 2)) {
    ids[c] = static_cast<int32_t>(bpe.tokens.size());
    hf::append_utf8(bpe.tokens.emplace_back(), c);
  }
  return ids;
}

/// Finds the special tokens of a text.
hf::AddedTokenMatcher special_matcher(const LearnedBpe& bpe) {
  std::vector<hf::AddedToken> added;
  for (size_t id = 0; id < bpe.special; ++id) {
    const std::string& token = bpe.tokens[id];
    added.push_back({.id = static_cast<int32_t>(id), .content = token, .spelling = token});
  }
  return hf::AddedTokenMatcher(std::move(added));
}

}  // namespace

std::unique_ptr<Tokenizer> train_bpe(DocumentReader& documents, const BpeTraining& options,
                                     const Threads& threads) {
  LearnedBpe bpe = first_tokens(options);
  const hf::AddedTokenMatcher special = special_matcher(bpe);
  WordCounts counts = count_words(
      documents, {.pattern = kWordPattern, .special = &special, .most_cost = options.most_cost},
      threads);
  MergeLearning learning;
  learning.vocab_size = static_cast<size_t>(options.vocab_size);
  // A merge that spelled like one of these would become it. (The pattern leaves none that spells "<0x0A>".)
  for (size_t id = 0; id < bpe.special; ++id) learning.reserved.insert(bpe.tokens[id]);
  const std::vector<int32_t> ids = unit_ids(bpe, counts, learning.vocab_size);
  bpe.merges = learn_merges(take_words(std::move(counts), ids), learning, bpe.tokens);
  if (bpe.tokens.size() < learning.vocab_size) {
    log::warning(fmt::format(
        "the text supports a vocabulary of {} only, not {}: no more pairs of tokens occur twice, "
        "and the smaller one is trained",
        bpe.tokens.size(), learning.vocab_size));
  }
  return make_hf_tokenizer(bpe_files(bpe), "the trained tokenizer.json");
}

}  // namespace athanor::data
