/*
 * attend_all.cu - attention of every position of a source over all positions of the source, both ways: an encoder's. Rows of
 * y past a source's length are zero.
 *
 * Formula, shapes, launch: attention.cuh.
 */
#include "attention.cuh"

WAITS KERNEL void attend_all (float *y, const float *qkv, const float *bias, const i32 *lengths, i32 sources, i32 heads,
                              i32 size, i32 room, i32 reach) {
  release_next();
  span mine = share(sources * heads * room);
  i32 inner = heads * size;
  wait_previous();
  for (i32 item = mine.first; item < mine.last; item++) {
    i32 query = item % room, head = item / room % heads, source = item / room / heads, length = lengths[source];
    size_t row = (size_t)source * (size_t)room + (size_t)query;
    const float *start = qkv + (size_t)source * (size_t)room * 3 * (size_t)inner + head * size;
    float *to = y + row * (size_t)inner + head * size;
    if (query >= length) {
      for (i32 d = (i32)THREAD; d < size; d += (i32)THREADS) to[d] = 0;
      continue;
    }
    relative b = {bias, heads, head, reach, query};
    attend(to, view_of(start + (size_t)query * 3 * (size_t)inner, size, 3 * inner), view_of(start + inner, size, 3 * inner),
           view_of(start + 2 * inner, size, 3 * inner), b, size, length < room ? length : room);
  }
}
