// athanor tokenizer train|encode|decode|inspect.
#include "data/tokenizer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/new_directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "data/documents.h"
#include "data/token_lines.h"
#include "data/tokenizer_export.h"
#include "data/tokenizer_train.h"
#include "data/utf8.h"

namespace athanor::cli {
namespace {

constexpr const char* kTokenizerHelp =
    "A tokenizer: a file of any name, or a folder (a model, a checkpoint, a pack) that holds one";

nlohmann::json description_of(const data::Tokenizer& tokenizer) {
  const data::SpecialIds special = tokenizer.special();
  nlohmann::json description = {{"kind", data::name_of(tokenizer.kind())},
                                {"vocab_size", tokenizer.vocab_size()},
                                {"identity", tokenizer.identity()},
                                {"unk", special.unk},
                                {"bos", special.bos},
                                {"eos", special.eos},
                                {"pad", special.pad}};
  for (const auto& [step, how] : tokenizer.steps()) description[step] = how;
  return description;
}

/// How the tokenizer splits the text of --text: the words, and the pieces that these become.
void describe_text(const data::Tokenizer& tokenizer, const std::string& text,
                   nlohmann::json& description) {
  const size_t valid = data::valid_utf8_prefix(text);
  if (valid != text.size()) {
    throw usage_error(fmt::format("--text: the text is not UTF-8 at byte {}", valid));
  }
  description["words"] = tokenizer.words(text);
  const std::vector<int32_t> ids = tokenizer.encode(text);
  description["ids"] = ids;
  description["pieces"] = nlohmann::json::array();
  for (const int32_t id : ids) description["pieces"].push_back(tokenizer.piece(id));
}

void print_description(const nlohmann::json& description, bool json) {
  if (json) return print_json(description);
  for (const auto& [key, value] : description.items()) {
    if (value.is_array()) {
      // Of what a text becomes, one a line.
      print(fmt::format("{}\n", key));
      for (const auto& item : value) print(fmt::format("  {}\n", item.dump()));
      continue;
    }
    const bool absent = value.is_number_integer() && value.get<int64_t>() < 0;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    print(fmt::format("{:<15}{}\n", key, absent ? "none" : text));
  }
}

/// Before hours of work: what would be no folder, or would put a second tokenizer into one.
void refuse_out(const fs::path& out) {
  std::error_code ignored;
  const std::string extension = out.extension();
  if (extension == ".json" || extension == ".model" ||
      (fs::exists(out, ignored) && !fs::is_directory(out, ignored))) {
    throw usage_error(out.string() +
                      ": --out is a folder, in which tokenizer.json will lie: name a folder");
  }
  if (data::holds_tokenizer(out)) {
    throw usage_error(out.string() +
                      " holds a tokenizer already: remove it or name another folder");
  }
}

void add_training(CLI::App& group) {
  struct Options {
    fs::path data, out;
    std::string kind = "byte-level";
    std::optional<int64_t> max_bytes;
    data::TokenizerTraining training;
    bool json = false;
  };
  CLI::App* verb = add_verb(group, "train", "Learn a tokenizer from text",
                            "tokenizer train corpus/ --out my-tokenizer --vocab 8192");
  auto options = std::make_shared<Options>();
  verb->add_option("DATA", options->data, "A .txt or .jsonl file, or a folder of them")->required();
  verb->add_option("--out", options->out, "The folder to write tokenizer.json into")->required();
  verb->add_option(
          "--kind", options->kind,
          "byte-level: BPE of bytes; byte-fallback: BPE of characters, rare ones as bytes; "
          "unigram: SentencePiece's")
      ->check(CLI::IsMember({"byte-level", "byte-fallback", "unigram"}))
      ->capture_default_str();
  add_number(*verb, "--vocab", options->training.vocab_size, "Number of tokens in all",
             {.least = 1});
  verb->add_option("--special", options->training.special,
                   "A special token of your own, such as <|im_start|>; may be given again")
      ->allow_extra_args(false);
  add_number(*verb, "--max-bytes", options->max_bytes,
             "Sample whole documents where there is more text than this [unigram: 256 MB, else: no "
             "limit]",
             {.least = 1});
  add_number(*verb, "--seed", options->training.seed, "Of that sample");
  add_json_flag(*verb, options->json);
  verb->callback([options] {
    refuse_out(options->out);
    options->training.kind = data::trained_kind(options->kind);
    options->training.max_bytes = options->max_bytes;
    const data::DocumentFiles files(options->data);
    files.warn_ignored();
    const NewDirectories made(options->out);
    const auto tokenizer = data::train_tokenizer(*files.read(), options->training, Threads());
    data::export_tokenizer(*tokenizer, options->out);
    print_description(description_of(*tokenizer), options->json);
  });
}

void add_encode(CLI::App& group) {
  struct Options {
    fs::path tokenizer, jsonl;
    bool special = false;
  };
  CLI::App* verb =
      add_verb(group, "encode", "Texts to token ids: one object with `ids` a line on stdout",
               "tokenizer encode runs/demo/model --jsonl texts.jsonl");
  auto options = std::make_shared<Options>();
  verb->add_option("T", options->tokenizer, kTokenizerHelp)->required();
  verb->add_option("--jsonl", options->jsonl, "Objects with `text`, one a line")->required();
  verb->add_flag("--add-special-tokens", options->special,
                 "Put BOS in front and EOS behind, where the tokenizer has them");
  verb->callback([options] {
    const auto tokenizer = data::load_tokenizer(options->tokenizer);
    data::encode_lines(*tokenizer, options->jsonl, options->special, Threads(), print);
  });
}

void add_decode(CLI::App& group) {
  struct Options {
    fs::path tokenizer, jsonl;
    bool skip_special = false;
  };
  CLI::App* verb =
      add_verb(group, "decode", "Token ids to texts: one object with `text` a line on stdout",
               "tokenizer decode runs/demo/model --jsonl ids.jsonl --skip-special-tokens");
  auto options = std::make_shared<Options>();
  verb->add_option("T", options->tokenizer, kTokenizerHelp)->required();
  verb->add_option("--jsonl", options->jsonl, "Objects with `ids`, one a line")->required();
  verb->add_flag("--skip-special-tokens", options->skip_special,
                 "Leave out BOS, EOS and their like");
  verb->callback([options] {
    const auto tokenizer = data::load_tokenizer(options->tokenizer);
    data::decode_lines(*tokenizer, options->jsonl, options->skip_special, print);
  });
}

void add_inspect(CLI::App& group) {
  struct Options {
    fs::path tokenizer;
    std::optional<std::string> text;
    bool pieces = false;
    bool json = false;
  };
  CLI::App* verb =
      add_verb(group, "inspect", "Show what a tokenizer does, and how it splits a text",
               "tokenizer inspect runs/demo/model --text \"In the beginning\"");
  auto options = std::make_shared<Options>();
  verb->add_option("T", options->tokenizer, kTokenizerHelp)->required();
  CLI::Option* text =
      verb->add_option("--text", options->text, "Show the words, ids and pieces of this text");
  CLI::Option* pieces =
      verb->add_flag("--pieces", options->pieces, "List every id and its piece as a JSON string");
  pieces->excludes(text);
  verb->add_flag("--json", options->json, "Print one JSON object instead of text")
      ->excludes(pieces);
  verb->callback([options] {
    const auto tokenizer = data::load_tokenizer(options->tokenizer);
    if (!options->pieces) {
      nlohmann::json description = description_of(*tokenizer);
      if (options->text) describe_text(*tokenizer, *options->text, description);
      return print_description(description, options->json);
    }
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      print(fmt::format("{}\t{}\n", id, nlohmann::json(tokenizer->piece(id)).dump()));
    }
  });
}

}  // namespace

void add_tokenizer(CLI::App& app) {
  CLI::App* group = add_group(app, "tokenizer", "Train, use and inspect tokenizers");
  add_training(*group);
  add_encode(*group);
  add_decode(*group);
  add_inspect(*group);
}

}  // namespace athanor::cli
