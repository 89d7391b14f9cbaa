// athanor data pack|inspect|verify.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/memory.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "data/documents.h"
#include "data/pack.h"
#include "data/shards.h"
#include "data/split.h"
#include "data/tokenizer.h"

namespace athanor::cli {
namespace {

void print_index(const data::PackIndex& index, bool json) {
  if (json) return print(data::to_json(index) + "\n");
  print(fmt::format("tokenizer   {} of {} tokens, {}{}{}\n", index.tokenizer_kind, index.vocab_size,
                    index.tokenizer, index.bos ? ", BOS" : "", index.eos ? ", EOS" : ""));
  for (const auto& [split, name] :
       {std::pair{data::Split::kTrain, "train"}, std::pair{data::Split::kHeldOut, "held out"}}) {
    print(fmt::format("{:<12}{}, {}, {} of text, {}\n", name,
                      counted(index.documents(split), "document"),
                      counted(index.tokens(split), "token"), size_text(index.text_bytes(split)),
                      counted(index.shards(split).size(), "shard")));
  }
}

void add_pack(CLI::App& group) {
  struct Options {
    fs::path data, tokenizer, out;
    data::PackOptions pack;
    double held_out = 0;
    uint64_t seed = 1;
    bool no_eos = false;
    bool json = false;
  };
  CLI::App* verb = add_verb(group, "pack", "Tokenize documents into shards that training reads",
                            "data pack corpus/ --tokenizer tokenizer.model --out packed/");
  auto options = std::make_shared<Options>();
  verb->add_option("DATA", options->data, "A .txt or .jsonl file, or a folder of them")->required();
  verb->add_option("--tokenizer", options->tokenizer, "A tokenizer's file or folder")->required();
  verb->add_option("--out", options->out, "Folder of the shards")->required();
  verb->add_flag("--bos", options->pack.bos, "Begin each document with BOS");
  verb->add_flag("--no-eos", options->no_eos, "Do not end each document with EOS");
  add_number(*verb, "--heldout", options->held_out,
             "Share of the bytes, in whole documents, that goes to the held-out split",
             {.least = 0, .most = 0.5});
  add_number(*verb, "--seed", options->seed, "Picks the held-out documents");
  add_number(*verb, "--shard-tokens", options->pack.shard_tokens, "Tokens a shard", {.least = 1});
  add_json_flag(*verb, options->json);
  verb->callback([options] {
    const auto tokenizer = data::load_tokenizer(options->tokenizer);
    const data::DocumentFiles files(options->data);
    files.warn_ignored();
    options->pack.eos = !options->no_eos;
    if (options->held_out != 0) {
      options->pack.held_out = data::choose_held_out(data::document_sizes(*files.read()),
                                                     options->seed, options->held_out);
    }
    print_index(data::pack(*files.read(), *tokenizer, options->pack, options->out, Threads()),
                options->json);
  });
}

void add_inspect(CLI::App& group) {
  struct Options {
    fs::path pack;
    bool json = false;
  };
  CLI::App* verb =
      add_verb(group, "inspect", "Show what packed shards hold", "data inspect packed/ --json");
  auto options = std::make_shared<Options>();
  verb->add_option("PACK", options->pack, "Folder of shards")->required();
  add_json_flag(*verb, options->json);
  verb->callback([options] { print_index(data::read_pack_index(options->pack), options->json); });
}

void add_verify(CLI::App& group) {
  CLI::App* verb =
      add_verb(group, "verify", "Check every byte of packed shards", "data verify packed/");
  auto pack = std::make_shared<fs::path>();
  verb->add_option("PACK", *pack, "Folder of shards")->required();
  verb->callback([pack] {
    data::verify_pack(*pack);
    print(pack->string() + ": every byte is as it was written\n");
  });
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* group = add_group(app, "data", "Pack text into shards, inspect and verify them");
  add_pack(*group);
  add_inspect(*group);
  add_verify(*group);
}

}  // namespace athanor::cli
