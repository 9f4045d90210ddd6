"""Times the decoding and resizing of clips by PyAV or torchcodec, as tests/bench/bench_media.c does
it. scripts/bench runs it.

    bench_clips.py av|torchcodec WORKERS FRAMES HEIGHT WIDTH FILE...

WORKERS threads take the files one after the other, each with a decoder of one thread, and resize
the first FRAMES frames to WIDTH x HEIGHT with a low-pass. The output is the CPU seconds of all
threads, without the start of the program."""
import concurrent.futures
import itertools
import sys
import time


def av_frames(path, n, height, width):
    import av
    with av.open(path) as c:
        s = c.streams.video[0]
        s.thread_count = 1
        return [f.to_ndarray(width=width, height=height, format="rgb24", interpolation="AREA")
                for f in itertools.islice(c.decode(s), n)]


def torchcodec_frames(path, n, height, width):
    import torch
    from torchcodec.decoders import VideoDecoder
    frames = VideoDecoder(path, num_ffmpeg_threads=1).get_frames_in_range(0, n).data
    return torch.nn.functional.interpolate(frames, (height, width), mode="bilinear",
                                           antialias=True)


def main(library, workers, n, height, width, *files):
    __import__(library)
    if library == "torchcodec":
        import torch
        torch.set_num_threads(1)
    read = {"av": av_frames, "torchcodec": torchcodec_frames}[library]
    with concurrent.futures.ThreadPoolExecutor(int(workers)) as pool:
        begin = time.process_time()
        for frames in pool.map(lambda f: len(read(f, int(n), int(height), int(width))), files):
            assert frames == int(n)
        print("%.6f" % (time.process_time() - begin))


main(*sys.argv[1:])
