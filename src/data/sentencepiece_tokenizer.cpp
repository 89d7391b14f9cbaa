#include "data/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/checksum.h"
#include "data/hf/space_mark.h"
#include "data/sentencepiece_files.h"
#include "data/sentencepiece_model.h"
#include "data/utf8.h"

namespace athanor::data {
namespace {

using hf::kSpaceMark;

constexpr size_t kLongestCachedUnit = 64;
constexpr size_t kMostCachedUnits = 1 << 16;

/// Where a text may be cut so that the parts, encoded one by one, give the ids of the whole: before
/// a space or a newline, if no piece holds that character behind the character in front of it. No
/// merge and no segmentation then spans the cut. (In exact arithmetic. The library adds unigram
/// scores in float over the whole of what it is given, so that in a text of megabytes rounding
/// would choose; over single words it does not.)
class Cuts {
 public:
  explicit Cuts(const SentencePieceModel& model) {
    possible_ = model.keeps_text() && model.byte_fallback;
    for (const Piece& piece : model.pieces) {
      if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
      std::string_view before;
      for (std::string_view rest = piece.text; !rest.empty();) {
        const std::string_view character = rest.substr(0, character_bytes(rest));
        rest.remove_prefix(character.size());
        if (!before.empty()) {
          if (character == kSpaceMark) before_space_.insert(std::string(before));
          if (character == "\n") before_newline_.insert(std::string(before));
        }
        before = character;
      }
    }
  }

  bool possible() const { return possible_; }

  /// The end of the unit that begins at `begin`.
  size_t next(std::string_view text, size_t begin) const {
    size_t i = begin;
    std::string_view before;
    while (i < text.size()) {
      const size_t bytes = character_bytes(text.substr(i));
      std::string_view character = text.substr(i, bytes);
      if (character == " ") character = kSpaceMark;
      if (i > begin) {
        const bool space = character == kSpaceMark;
        if ((space && !holds(before_space_, before)) ||
            (character == "\n" && !holds(before_newline_, before))) {
          return i;
        }
      }
      before = character;
      i += bytes;
    }
    return i;
  }

 private:
  static size_t character_bytes(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  }
  static bool holds(const std::unordered_set<std::string>& set, std::string_view character) {
    return set.contains(std::string(character));
  }
  bool possible_ = false;
  std::unordered_set<std::string> before_space_;
  std::unordered_set<std::string> before_newline_;
};

/// Decodes as the library does: "▁" is a space, of byte pieces in a row each bad byte becomes
/// U+FFFD, control pieces are silent, and the space that a dummy prefix put in front is taken away.
class PieceStream : public StreamDecoder {
 public:
  explicit PieceStream(const SentencePieceModel& model) : model_(model) {}

  std::string push(int32_t id) override {
    std::string out;
    if (id < 0 || static_cast<size_t>(id) >= model_.pieces.size()) return out;
    const Piece& piece = model_.pieces[static_cast<size_t>(id)];
    if (piece.type == PieceType::kByte) {
      repair_.push(static_cast<unsigned char>(byte_of(piece.text)), out);
      any_text_ |= !out.empty();
      pending_ = true;
      return out;
    }
    if (pending_) {
      repair_.finish(out);
      pending_ = false;
      any_text_ = true;
    }
    if (prefix_taken_ || any_text_) at_begin_ = false;
    prefix_taken_ = false;
    if (piece.type == PieceType::kControl) return out;
    if (piece.type == PieceType::kUnknown) {
      out += model_.unk_surface;
    } else {
      append(piece.text, out);
    }
    any_text_ |= !out.empty();
    return out;
  }

  std::string finish() override {
    std::string out;
    repair_.finish(out);
    pending_ = any_text_ = prefix_taken_ = false;
    at_begin_ = true;
    return out;
  }

 private:
  void append(std::string_view piece, std::string& out) {
    if (at_begin_ && (model_.add_dummy_prefix || model_.remove_extra_whitespaces) &&
        piece.starts_with(kSpaceMark)) {
      piece.remove_prefix(kSpaceMark.size());
      // With extra spaces removed, all leading ones go, not the first alone.
      prefix_taken_ = !model_.remove_extra_whitespaces;
    }
    for (size_t i = 0; i < piece.size();) {
      if (piece.substr(i).starts_with(kSpaceMark)) {
        out += ' ';
        i += kSpaceMark.size();
      } else {
        out += piece[i++];
      }
    }
  }

  const SentencePieceModel& model_;
  Utf8Repair repair_{Utf8Repair::Policy::kEachByte};
  bool pending_ = false;       // byte pieces are being gathered
  bool at_begin_ = true;       // a leading space would be the dummy prefix
  bool prefix_taken_ = false;  // the last piece lost it
  bool any_text_ = false;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string content, const std::string& name)
      : model_(parse_sentencepiece_model(content, name)),
        content_(std::move(content)),
        identity_(Checksum::of(content_.data(), content_.size())),
        cuts_(model_) {
    const auto status = processor_.LoadFromSerializedProto(content_);
    if (!status.ok()) {
      throw data_error(fmt::format("{}: the SentencePiece library refuses it: {}", name,
                                   status.error_message()));
    }
    require(static_cast<size_t>(processor_.GetPieceSize()) == model_.pieces.size(),
            "two readings of a SentencePiece model differ");
  }

  TokenizerKind kind() const override { return model_.kind; }
  int32_t vocab_size() const override { return static_cast<int32_t>(model_.pieces.size()); }
  SpecialIds special() const override { return model_.special; }
  const std::string& identity() const override { return identity_; }
  std::string piece(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) {
      throw usage_error(fmt::format("token {} is outside the vocabulary of {}", id, vocab_size()));
    }
    return model_.pieces[static_cast<size_t>(id)].text;
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    const size_t valid = valid_utf8_prefix(text);
    if (valid != text.size()) {
      throw data_error(fmt::format("the text is not UTF-8 at byte {}", valid));
    }
    if (!cuts_.possible()) return encode_unit(text);
    std::vector<int32_t> ids;
    std::unordered_map<std::string_view, std::vector<int32_t>> cache;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = cuts_.next(text, begin);
      const std::string_view unit = text.substr(begin, end - begin);
      begin = end;
      const auto known = cache.find(unit);
      if (known != cache.end()) {
        ids.insert(ids.end(), known->second.begin(), known->second.end());
        continue;
      }
      std::vector<int32_t> unit_ids = encode_unit(unit);
      ids.insert(ids.end(), unit_ids.begin(), unit_ids.end());
      if (unit.size() <= kLongestCachedUnit && cache.size() < kMostCachedUnits) {
        cache.emplace(unit, std::move(unit_ids));
      }
    }
    return ids;
  }

  std::unique_ptr<StreamDecoder> stream_decoder(bool) const override {
    return std::make_unique<PieceStream>(model_);
  }

  std::vector<std::pair<std::string, std::string>> files() const override {
    return sentencepiece_files(model_, content_);
  }

 private:
  std::vector<int32_t> encode_unit(std::string_view unit) const {
    std::vector<int> ids;
    const auto status = processor_.Encode(unit, &ids);
    if (!status.ok()) {
      throw data_error(fmt::format("SentencePiece cannot encode: {}", status.error_message()));
    }
    return ids;
  }

  SentencePieceModel model_;
  std::string content_;
  std::string identity_;
  Cuts cuts_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece(std::string content, const std::string& name) {
  return std::make_unique<SentencePieceTokenizer>(std::move(content), name);
}

}  // namespace athanor::data
