# Finds the libraries vlt is built on. Each becomes an imported target vlt::NAME; one that is missing
# is reported together with the Debian/Ubuntu package that has it (scripts/setup installs them all).
find_package(Threads REQUIRED)
find_package(OpenMP COMPONENTS C)         # part of gcc; clang's is a package of its own
if(NOT OpenMP_C_FOUND)
  message(FATAL_ERROR "OpenMP: ${CMAKE_C_COMPILER} has none. With clang, install the package "
                      "libomp-dev (or run scripts/setup --fuzz).")
endif()

# toml++ is headers in C++: for clang, whose sanitizers gcc's are not, the compiler beside it
if(CMAKE_C_COMPILER_ID MATCHES Clang AND NOT CMAKE_CXX_COMPILER)
  string(REGEX REPLACE "clang([^/]*)$" "clang++\\1" CMAKE_CXX_COMPILER "${CMAKE_C_COMPILER}")
endif()
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "No C++ compiler found. Install the package g++ (or run scripts/setup).")
endif()
enable_language(CXX)

function(vlt_library name header library package)
  find_path(VLT_${name}_INCLUDE ${header})
  find_library(VLT_${name}_LIBRARY NAMES ${library})
  if(NOT VLT_${name}_INCLUDE OR NOT VLT_${name}_LIBRARY)
    message(FATAL_ERROR "${name}: ${header} or lib${library} not found. "
                        "Install the package ${package} (or run scripts/setup).")
  endif()
  add_library(vlt::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(vlt::${name} PROPERTIES
    IMPORTED_LOCATION ${VLT_${name}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${VLT_${name}_INCLUDE})
endfunction()

# VAR becomes "9.19.0" from `#define PREFIX_MAJOR 9`, ...
function(vlt_version var file prefix last)
  file(STRINGS ${file} lines REGEX "#define ${prefix}_(MAJOR|MINOR|${last}) +[0-9]+")
  string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" version
         "${lines}")
  set(${var} ${version} PARENT_SCOPE)
endfunction()

vlt_library(lmdb lmdb.h lmdb liblmdb-dev)
vlt_library(cjson cjson/cJSON.h cjson libcjson-dev)
vlt_library(xxhash xxhash.h xxhash libxxhash-dev)
vlt_library(yaml yaml.h yaml libyaml-dev)
vlt_library(pcre2 pcre2.h pcre2-8 libpcre2-dev)
find_path(VLT_tomlplusplus_INCLUDE toml++/toml.h)
if(NOT VLT_tomlplusplus_INCLUDE)
  message(FATAL_ERROR "toml++: toml++/toml.h not found. Install the package libtomlplusplus-dev "
                      "(or run scripts/setup).")
endif()
add_library(vlt::tomlplusplus INTERFACE IMPORTED GLOBAL)
set_target_properties(vlt::tomlplusplus PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${VLT_tomlplusplus_INCLUDE})
vlt_library(csv csv.h csv libcsv-dev)
vlt_library(archive archive.h archive libarchive-dev)
if(VLT_SQLITE)
  vlt_library(sqlite3 sqlite3.h sqlite3 libsqlite3-dev)
endif()
if(VLT_CURL)
  vlt_library(curl curl/curl.h curl libcurl4-openssl-dev)
endif()
if(VLT_ONEDNN)
  vlt_library(dnnl oneapi/dnnl/dnnl.h dnnl libdnnl-dev)
  vlt_version(dnnl ${VLT_dnnl_INCLUDE}/oneapi/dnnl/dnnl_version.h DNNL_VERSION PATCH)
  file(REAL_PATH ${VLT_dnnl_LIBRARY} dnnl_file)
  string(REGEX REPLACE "^([0-9]+).*" "\\1" major ${dnnl})
  if(dnnl VERSION_LESS 2.6)
    message(FATAL_ERROR "oneDNN ${dnnl} in ${VLT_dnnl_INCLUDE} is too old: 2.6 or 3.x is needed.")
  elseif(dnnl_file MATCHES "\\.so\\.[0-9]" AND NOT dnnl_file MATCHES "\\.so\\.${major}")
    message(FATAL_ERROR "oneDNN: the headers in ${VLT_dnnl_INCLUDE} are version ${dnnl}, but the "
                        "library is ${dnnl_file}. Name the folder of one version in "
                        "-DCMAKE_PREFIX_PATH=... for a new build folder.")
  endif()
  message(STATUS "oneDNN ${dnnl}: ${VLT_dnnl_LIBRARY}")
endif()
if(VLT_FFMPEG)
  vlt_library(avformat libavformat/avformat.h avformat libavformat-dev)
  vlt_library(avcodec libavcodec/avcodec.h avcodec libavcodec-dev)
  vlt_library(avutil libavutil/avutil.h avutil libavutil-dev)
  vlt_library(swresample libswresample/swresample.h swresample libswresample-dev)
  vlt_library(swscale libswscale/swscale.h swscale libswscale-dev)
  vlt_library(zimg zimg.h zimg libzimg-dev)
  vlt_library(turbojpeg turbojpeg.h turbojpeg libturbojpeg0-dev)
  vlt_library(tiff tiffio.h tiff libtiff-dev)
  vlt_library(utf8proc utf8proc.h utf8proc libutf8proc-dev)
endif()
if(VLT_TESTS)
  vlt_library(cmocka cmocka.h cmocka libcmocka-dev)
endif()

# the libraries that the programs do well without: Arrow's, which Debian has from release 14 on and
# Ubuntu from 26.04 on.
# Elsewhere pyarrow's wheel has it: pyarrow.create_library_symlinks(), then
#     cmake -DCMAKE_INCLUDE_PATH=.../pyarrow/include -DCMAKE_LIBRARY_PATH=.../pyarrow
set(VLT_ARROW_FOUND OFF)
if(VLT_ARROW)
  find_path(VLT_arrow_INCLUDE arrow/api.h)
  find_path(VLT_parquet_INCLUDE parquet/arrow/reader.h)
  find_library(VLT_arrow_LIBRARY arrow)
  find_library(VLT_parquet_LIBRARY parquet)
  if(VLT_arrow_INCLUDE AND VLT_parquet_INCLUDE AND VLT_arrow_LIBRARY AND VLT_parquet_LIBRARY)
    vlt_version(arrow ${VLT_arrow_INCLUDE}/arrow/util/config.h ARROW_VERSION PATCH)
    if(arrow VERSION_LESS 18)            # older ones crash on some damaged files
      message(STATUS "Arrow ${arrow} in ${VLT_arrow_INCLUDE} is too old, lists in Parquet and "
                     "Arrow files are refused: 18 or later reads them")
    else()
      set(VLT_ARROW_FOUND ON)
      vlt_library(arrow arrow/api.h arrow libarrow-dev)
      vlt_library(parquet parquet/arrow/reader.h parquet libparquet-dev)
      message(STATUS "Arrow ${arrow}: ${VLT_parquet_LIBRARY}")
    endif()
  endif()
endif()

# the server of vlat report --serve
set(VLT_MICROHTTPD_FOUND OFF)
if(VLT_MICROHTTPD)
  find_path(VLT_microhttpd_INCLUDE microhttpd.h)
  find_library(VLT_microhttpd_LIBRARY microhttpd)
  if(VLT_microhttpd_INCLUDE AND VLT_microhttpd_LIBRARY)
    set(VLT_MICROHTTPD_FOUND ON)
    vlt_library(microhttpd microhttpd.h microhttpd libmicrohttpd-dev)
  else()
    message(STATUS "libmicrohttpd not found: vlat report --serve is refused (install "
                   "libmicrohttpd-dev, or run scripts/setup)")
  endif()
endif()

# and MPI
set(VLT_MPI_FOUND OFF)
if(VLT_MPI)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(VLT_MPI_FOUND ON)
  else()
    message(STATUS "MPI not found: programs run as one process (install libopenmpi-dev, or run "
                   "scripts/setup, for several)")
  endif()
endif()
