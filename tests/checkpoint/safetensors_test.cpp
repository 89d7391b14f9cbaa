#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "support/golden.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)

// A file with the given JSON header and `data` bytes behind it.
std::string file_of(const std::string& header, size_t data) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data, '\x01');
}

TEST(Safetensors, WritesWhatItReads) {
  const ScratchFolder folder;
  std::vector<float> matrix{1, 2, 3, 4, 5, 6};
  std::vector<int64_t> ids{-7, 1LL << 40};
  std::vector<bfloat16> halves{bfloat16(0.5f), bfloat16(-3.0f), bfloat16(1e30f)};
  StagedSafetensors(folder / "a.safetensors",
                    std::vector<NamedTensor>{{"m", {2, 3}, Tensor::of(matrix.data(), {6})},
                                             {"ids", {2}, Tensor::of(ids.data(), {2})},
                                             {"h", {3, 1, 1}, Tensor::of(halves.data(), {3})}})
      .commit();
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.header_bytes() % 8, 0u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.at("m").describe(), "F32[2, 3]");
  EXPECT_EQ(file.find("absent"), nullptr);
  std::vector<float> part(2);
  file.read(file.at("m"), 3, Tensor::of(part.data(), {2}));
  EXPECT_EQ(part, (std::vector<float>{4, 5}));
  std::vector<int64_t> back(2);
  file.read(file.at("ids"), 0, Tensor::of(back.data(), {2}));
  EXPECT_EQ(back, ids);
  std::vector<double> wide(3);
  file.read(file.at("h"), 0, Tensor::of(wide.data(), {3}));
  EXPECT_EQ(wide[0], 0.5);
  EXPECT_EQ(wide[1], -3.0);
}

TEST(Safetensors, ALargeTensorIsConvertedWhole) {
  const ScratchFolder folder;
  std::vector<float> values(40'001);  // converted in pieces
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  StagedSafetensors(folder / "a",
                    std::vector<NamedTensor>{{"x", {40'001}, Tensor::of(values.data(), {40'001})}})
      .commit();
  const SafetensorsFile file(folder / "a");
  std::vector<double> wide(40'000);
  file.read(file.at("x"), 1, Tensor::of(wide.data(), {40'000}));
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], static_cast<double>(i + 1));
}

TEST(Safetensors, StagedFileLeavesNothingUnlessCommitted) {
  const ScratchFolder folder;
  std::vector<float> x{1};
  {
    StagedSafetensors staged(folder / "x",
                             std::vector<NamedTensor>{{"x", {1}, Tensor::of(x.data(), {1})}});
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Safetensors, ConversionsThatLoseAValueAreRefused) {
  const ScratchFolder folder;
  std::vector<int64_t> ids{1LL << 40};
  std::vector<float> reals{1.5f};
  StagedSafetensors(folder / "a.safetensors",
                    std::vector<NamedTensor>{{"ids", {1}, Tensor::of(ids.data(), {1})},
                                             {"reals", {1}, Tensor::of(reals.data(), {1})}})
      .commit();
  const SafetensorsFile file(folder / "a.safetensors");
  int32_t narrow = 0;
  expect_error(ExitCode::kData, {"a.safetensors", "ids", "I32"},
               [&] { file.read(file.at("ids"), 0, Tensor::of(&narrow, {1})); });
  expect_error(ExitCode::kData, {"reals", "I32"},
               [&] { file.read(file.at("reals"), 0, Tensor::of(&narrow, {1})); });
  expect_error(ExitCode::kData, {"a.safetensors", "absent", "missing"}, [&] { file.at("absent"); });
}

TEST(Safetensors, ReadsWhatTheReferenceWriterWrote) {
  const auto folder = golden_folder("tiny");
  ASSERT_TRUE(folder);
  const SafetensorsFile file(*folder / "model.safetensors");
  EXPECT_EQ(file.entries().size(), 99u);
  EXPECT_EQ(file.at("model.embed_tokens.weight").describe(), "F32[128, 64]");
}

struct BadFile {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;
};

/// The test's name in listings: an address would differ from run to run.
void PrintTo(  // NOLINT(readability-identifier-naming): GoogleTest looks for this name
    const BadFile& bad, std::ostream* out) {
  *out << bad.name;
}

std::string one(const std::string& entry) { return "{\"t\":" + entry + "}"; }

std::vector<BadFile> bad_files() {
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  std::string huge = file_of(one(good), 8);
  huge.replace(0, 8, std::string(8, '\xff'));
  return {
      {"empty", "", {"cut short"}},
      {"seven_bytes", "1234567", {"cut short"}},
      {"huge_header_length", huge, {"header claims 18446744073709551615"}},
      {"header_cut", file_of(one(good), 8).substr(0, 20), {"cut short"}},
      {"data_cut", file_of(one(good), 7), {"tensor t", "cut short"}},
      {"bytes_behind", file_of(one(good), 9), {"1 bytes after the last tensor"}},
      {"no_object", file_of("[1,2]", 0), {"no safetensors header"}},
      {"no_json", file_of("{\"t\":", 0), {"not valid JSON"}},
      {"not_utf8", file_of("{\"\xff\xfe\":1}", 0), {"not valid JSON"}},
      {"doubled_name",
       file_of("{\"t\":" + good + ",\"t\":" + good + "}", 8),
       {"\"t\" occurs twice"}},
      {"doubled_key",
       file_of(one(R"({"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]})"), 8),
       {"\"dtype\" occurs twice"}},
      {"entry_no_object", file_of(one("3"), 8), {"tensor t", "object"}},
      {"no_dtype",
       file_of(one(R"({"shape":[2],"data_offsets":[0,8]})"), 8),
       {"t", "\"dtype\" is missing"}},
      {"no_shape", file_of(one(R"({"dtype":"F32","data_offsets":[0,8]})"), 8), {"\"shape\""}},
      {"no_offsets", file_of(one(R"({"dtype":"F32","shape":[2]})"), 8), {"\"data_offsets\""}},
      {"unknown_key",
       file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), 8),
       {"tensor t", "unknown keys"}},
      {"unknown_dtype",
       file_of(one(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})"), 8),
       {"tensor t", "F33"}},
      {"negative_size",
       file_of(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), 8),
       {"tensor t", "negative"}},
      {"fractional_size",
       file_of(one(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})"), 8),
       {"tensor t", "\"shape\""}},
      {"overflowing_shape",
       file_of(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), 8),
       {"tensor t"}},
      {"overflowing_bytes",
       file_of(one(R"({"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]})"), 8),
       {"tensor t"}},
      {"wrong_shape",
       file_of(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), 8),
       {"tensor t", "F32[3]", "8 bytes"}},
      {"negative_offset",
       file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})"), 8),
       {"tensor t", "data_offsets"}},
      {"reversed_offsets",
       file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), 8),
       {"tensor t", "data_offsets"}},
      {"offset_past_the_end",
       file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,16]})"), 8),
       {"tensor t", "data_offsets"}},
      {"offset_too_large",
       file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})"), 8),
       {"tensor t", "data_offsets"}},
      {"one_offset",
       file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})"), 8),
       {"tensor t", "data_offsets"}},
      {"overlap",
       file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
               12),
       {"tensor b", "overlaps", "a"}},
      {"hole",
       file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
               12),
       {"tensor b", "hole", "a"}},
      {"hole_at_the_start",
       file_of(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), 8),
       {"tensor t", "hole"}},
      {"half_a_byte",
       file_of(one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})"), 1),
       {"tensor t", "F4[3]"}},
      {"metadata_no_object", file_of(R"({"__metadata__":7})", 0), {"__metadata__"}},
      {"metadata_number", file_of(R"({"__metadata__":{"a":7}})", 0), {"__metadata__"}},
      {"nested",
       file_of("{\"t\":" + std::string(5000, '[') + std::string(5000, ']') + "}", 0),
       {"nested deeper"}},
      {"control_characters_in_a_name", file_of("{\"a\\nb\":3}", 0), {"a\\x0ab"}},
  };
}

class BadSafetensors : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedByName) {
  const ScratchFolder folder;
  write_bytes(folder / "bad.safetensors", GetParam().bytes);
  std::vector<std::string> words = GetParam().words;
  words.emplace_back("bad.safetensors");
  expect_error(ExitCode::kData, words, [&] { SafetensorsFile file(folder / "bad.safetensors"); });
}

INSTANTIATE_TEST_SUITE_P(Files, BadSafetensors, testing::ValuesIn(bad_files()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(Safetensors, AbsentFilesFoldersAndPipesAreRefused) {
  const ScratchFolder folder;
  expect_error(ExitCode::kData, {"absent"}, [&] { SafetensorsFile file(folder / "absent"); });
  expect_error(ExitCode::kData, {}, [&] { SafetensorsFile file(folder.path()); });
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::system(("mkfifo " + pipe).c_str()), 0);
  expect_error(ExitCode::kData, {"pipe", "regular"}, [&] { SafetensorsFile file(pipe); });
}

TEST(Safetensors, AHeaderOfAGigabyteIsRefusedUnread) {
  // Once claimed by a small file, once really there: 1 GB of spaces would be valid JSON's padding.
  const ScratchFolder folder;
  std::string bytes = file_of(R"({"t":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0);
  constexpr uint64_t kGigabyte = 1'000'000'000;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(kGigabyte >> (8 * i));
  for (const bool there : {false, true}) {
    write_bytes(folder / "huge", bytes);
    if (there) fs::resize_file(folder / "huge", kGigabyte + 8);
    const std::string message = expect_error(ExitCode::kData, {"huge", "1000000000"},
                                             [&] { SafetensorsFile file(folder / "huge"); });
    EXPECT_EQ(message.find("allows 100000000") != std::string::npos, there) << message;
  }
}

TEST(Safetensors, TensorsNeedNoAlignment) {
  const ScratchFolder folder;
  const std::array<float, 2> values{1.5f, -2.25f};
  std::string bytes = file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})",
                              11);
  std::memcpy(bytes.data() + bytes.size() - 8, values.data(), 8);
  write_bytes(folder / "a", bytes);
  const SafetensorsFile file(folder / "a");
  std::array<float, 2> same{};
  std::array<double, 2> converted{};
  file.read(file.at("b"), 0, Tensor::of(same.data(), {2}));
  file.read(file.at("b"), 0, Tensor::of(converted.data(), {2}));
  EXPECT_EQ(same, values);
  EXPECT_EQ(converted[1], -2.25);
}

TEST(Safetensors, EmptyTensorsAndScalarsAreFine) {
  const ScratchFolder folder;
  write_bytes(folder / "a", file_of(R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                                    R"("s":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})",
                                    2));
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.at("e").numel(), 0);
  EXPECT_EQ(file.at("s").numel(), 1);
  EXPECT_FALSE(file.at("s").type.has_value());
}

}  // namespace
}  // namespace athanor::test
