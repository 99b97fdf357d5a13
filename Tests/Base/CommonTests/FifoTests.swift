import Common
import Testing

@Suite("Fifo")
struct FifoTests {
  @Test("A FIFO queue returns each element exactly once, in the order of insertion")
  func order() {
    var queue = Fifo<Int>()
    var (put, taken) = (0, 0)
    for round in 1...200 {
      for _ in 0..<round % 7 {
        queue.append(put)
        put += 1
      }
      for _ in 0..<round % 5 where !queue.isEmpty {
        #expect(queue.first == taken)
        #expect(queue.popFirst() == taken)
        taken += 1
      }
      #expect(queue.count == put - taken)
    }
    #expect(queue.count > 64)
    while let next = queue.popFirst() {
      #expect(next == taken)
      taken += 1
    }
    #expect(taken == put)
    #expect(queue.isEmpty && queue.first == nil)
  }

  @Test("A FIFO queue does not return elements that were removed")
  func emptied() {
    var queue = Fifo<Int>()
    queue.append(1)
    queue.removeAll()
    #expect(queue.popFirst() == nil)
    queue.append(2)
    #expect(queue.popFirst() == 2)
  }
}
