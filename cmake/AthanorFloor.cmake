# A floor of the house (docs/house.md) is one static library per folder of src/. It links, and through its include
# path sees, only the floors named below it.

add_library(athanor_options INTERFACE)
target_compile_options(athanor_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers
  -ffp-contract=off        # a fused multiply-add appears only where the code asks for one: same bits everywhere
  -fno-math-errno)
if(ATHANOR_WERROR)
  target_compile_options(athanor_options INTERFACE -Werror)
endif()
if(ATHANOR_SANITIZE)
  target_compile_options(athanor_options INTERFACE -fsanitize=${ATHANOR_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(athanor_options INTERFACE -fsanitize=${ATHANOR_SANITIZE})
endif()

# athanor_floor(NAME BELOW floor... LIBRARIES target...); a floor's folders named by EXCEPT are built elsewhere.
function(athanor_floor name)
  cmake_parse_arguments(floor "" "" "BELOW;LIBRARIES;EXCEPT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  foreach(folder IN LISTS floor_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "/src/${name}/${folder}/")
  endforeach()
  # One folder of links a floor, so that an include of a floor that is not below does not resolve.
  set(view ${CMAKE_BINARY_DIR}/floors/${name})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${view}/${name} SYMBOLIC)
  add_library(athanor_${name} STATIC ${sources})
  target_include_directories(athanor_${name} PUBLIC ${view})
  foreach(lower IN LISTS floor_BELOW)
    target_link_libraries(athanor_${name} PUBLIC athanor_${lower})
  endforeach()
  target_link_libraries(athanor_${name} PUBLIC athanor_options PRIVATE ${floor_LIBRARIES})
endfunction()
