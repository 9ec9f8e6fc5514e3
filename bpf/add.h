// Atomic addition: no other processor's is lost.
#pragma once

#define add(place, n) __sync_fetch_and_add(place, n)
