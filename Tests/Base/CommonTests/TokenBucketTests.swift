import Common
import Testing

@Suite("TokenBucket")
struct TokenBucketTests {
  private func moment(_ milliseconds: Int) -> Instant { .zero.advanced(by: .milliseconds(milliseconds)) }

  private func taken(_ bucket: inout TokenBucket, _ tries: Int, at milliseconds: Int) -> Int {
    (0..<tries).count { _ in bucket.take(at: moment(milliseconds)) }
  }

  @Test("A token bucket of size 10 allows 10 takes at once, and 10 more after its period")
  func evenly() {
    var bucket = TokenBucket(10, each: .seconds(30))
    let first = taken(&bucket, 20, at: 0)
    let early = taken(&bucket, 20, at: 2999)
    let third = taken(&bucket, 20, at: 6000)
    let whole = taken(&bucket, 20, at: 60_000)
    #expect([first, early, third, whole] == [10, 0, 2, 10])
  }

  @Test("Draining more tokens than a bucket has leaves it empty, and it refills with time")
  func drained() {
    var bucket = TokenBucket(10, each: .seconds(10))
    #expect(bucket.isFull(at: moment(0)))
    bucket.drain(4, at: moment(0))
    let rest = taken(&bucket, 20, at: 0)
    #expect(rest == 6 && !bucket.isFull(at: moment(9999)) && bucket.isFull(at: moment(10_000)))
    bucket.drain(1_000_000, at: moment(10_000))
    let later = taken(&bucket, 20, at: 13_000)
    #expect(later == 3)
  }

  @Test("A bucket of 10 tokens with a reserve of 3 gives 7 to ordinary takes and the rest to privileged ones")
  func reserve() {
    var bucket = TokenBucket(10)
    let others = (0..<20).count { _ in bucket.take(at: moment(0), reserve: 3) }
    #expect(others == 7)
    let privileged = taken(&bucket, 20, at: 0)
    #expect(privileged == 3)
  }
}
