import Common
import Testing

@Suite("Heap")
struct HeapTests {
  @Test("A heap returns its elements in ascending order after any sequence of insertions and removals")
  func order() {
    var random = SplitMix64(seed: 1)
    var heap = Heap<Int>()
    var model: [Int] = []
    for _ in 0..<5000 {
      if Int.random(in: 0..<3, using: &random) > 0 {
        let element = Int.random(in: 0..<100, using: &random)
        heap.insert(element)
        model.append(element)
      } else {
        let least = model.indices.min { model[$0] < model[$1] }.map { model.remove(at: $0) }
        #expect(heap.first == least)
        let popped = heap.popFirst()
        #expect(popped == least)
      }
      #expect(heap.count == model.count)
    }
  }

  @Test("A heap returns the remaining elements in ascending order after others were removed by a condition")
  func kept() {
    var heap = Heap<Int>()
    for number in 0..<1000 { heap.insert(number * 7919 % 1000) }
    var asked = 0
    heap.keep {
      asked += 1
      return $0 % 3 == 0
    }
    var rest: [Int] = []
    while let number = heap.popFirst() { rest.append(number) }
    #expect(asked == 1000 && rest == Array(stride(from: 0, to: 1000, by: 3)))
    heap.keep { _ in true }
    #expect(heap.first == nil)
  }
}
