/* page_files.h - the files of reports' pages as bytes, which the build makes
 * (formats/CMakeLists.txt): page.css, page.js with element.js before it, charts.js and live.js of
 * this folder, and dygraphs (its script and its style), the library that draws charts,
 * from the system's package libjs-dygraphs. Where the build found no dygraphs, its two files are
 * empty, and charts stay pictures. */
#ifndef FORMATS_REPORT_PAGE_FILES_H
#define FORMATS_REPORT_PAGE_FILES_H

#include <stddef.h>

typedef struct vf_page_file {
    const unsigned char *data;
    size_t n;
} vf_page_file;

extern const vf_page_file vf_page_css, vf_page_js, vf_page_charts_js, vf_page_live_js;
extern const vf_page_file vf_page_dygraph_css, vf_page_dygraph_js;

#endif
