// Matrix products by oneDNN, one at a time, for whoever measures them by turns with ours (src/advisor/peers.h).
//
// Writes a line with its name, then answers each line "linear bf16 t n k" or "outer fp32 t n k" with the seconds that one
// product took: y [t, n] = x [t, k] · wᵀ with weights packed beforehand, or dw [n, k] += dyᵀ · x of factors as they lie,
// either with a result in fp32. A product other than the one before is prepared and run once before it is timed.
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

using dnnl::memory;

class Product {
 public:
  Product(const dnnl::engine& engine, dnnl::stream stream, memory::data_type dtype, bool outer,
          memory::dim t, memory::dim n, memory::dim k)
      : stream_(std::move(stream)) {
    using tag = memory::format_tag;
    // The outer product's left factor is dy, read as its transpose; its right one, x, is what is packed otherwise.
    const memory::desc left(outer ? memory::dims{n, t} : memory::dims{t, k}, dtype,
                            outer ? tag::ba : tag::ab);
    const memory::desc right(outer ? memory::dims{t, k} : memory::dims{k, n}, dtype,
                             outer ? tag::ab : tag::any);
    const memory::desc result(outer ? memory::dims{n, k} : memory::dims{t, n},
                              memory::data_type::f32, tag::ab);
    dnnl::primitive_attr attributes;
    if (outer) {
      dnnl::post_ops accumulate;
      accumulate.append_sum(1.0F);
      attributes.set_post_ops(accumulate);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine, left, right, result, attributes);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(left, right, result),
                                                   attributes, engine);
#endif
    x_ = memory(left, engine);
    w_ = memory(description.weights_desc(), engine);
    y_ = memory(result, engine);
    // The same small numbers everywhere: neither zeros nor subnormals, in either dtype.
    std::memset(x_.get_data_handle(), 0x3c, left.get_size());
    std::memset(y_.get_data_handle(), 0, result.get_size());
    if (outer) {
      std::memset(w_.get_data_handle(), 0x3c, w_.get_desc().get_size());
    } else {
      memory w(memory::desc({k, n}, dtype, tag::ba), engine);
      std::memset(w.get_data_handle(), 0x3c, w.get_desc().get_size());
      dnnl::reorder(w, w_).execute(stream_, w, w_);
      stream_.wait();
    }
    product_ = dnnl::matmul(description);
    run();
  }

  double seconds() {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  void run() {
    product_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

  dnnl::stream stream_;
  dnnl::matmul product_;
  memory x_, w_, y_;
};

int serve() {
  const dnnl_version_t* version = dnnl_version();
  std::cout << "oneDNN " << version->major << '.' << version->minor << '.' << version->patch << '\n'
            << std::flush;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::stream stream(engine);
  std::unique_ptr<Product> product;
  std::string of;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line != of) {
      std::istringstream words(line);
      std::string kind, dtype;
      memory::dim t = 0, n = 0, k = 0;
      if (!(words >> kind >> dtype >> t >> n >> k)) throw std::runtime_error("asked for: " + line);
      product.reset();  // its memory first: the next may be as large
      product = std::make_unique<Product>(
          engine, stream, dtype == "bf16" ? memory::data_type::bf16 : memory::data_type::f32,
          kind == "outer", t, n, k);
      of = line;
    }
    std::cout << product->seconds() << '\n' << std::flush;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return serve();
  } catch (const std::exception& error) {
    std::cerr << "athanor-bench-peers: " << error.what() << '\n';
    return 4;
  }
}
