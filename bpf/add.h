// An addition that no other processor is lost to.
#pragma once

#define add(place, n) __sync_fetch_and_add(place, n)
