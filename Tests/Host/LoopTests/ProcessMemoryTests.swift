import Foundation
import Loop
import TestSupport
import Testing

@Suite("Memory of the daemon process")
struct ProcessMemoryTests {
  @Test("Freed memory is overwritten, unless a sanitizer replaces the allocator")
  func wiping() {
    #expect(ProcessMemory.wipesWhatIsFreed == !Sanitizer.isOn)
  }

  @Test("`realloc` preserves the bytes when memory grows or shrinks")
  func reallocation() throws {
    let sizes = [1, 24, 25, 1000, 1032, 1033, 70_000, 200_000, 5_000_000]
    for (from, to) in sizes.flatMap({ from in sizes.map { (from, $0) } }) {
      let block = try #require(malloc(from))
      memset(block, 0x5A, from)
      let again = try #require(realloc(block, to))
      let bytes = UnsafeRawBufferPointer(start: again, count: min(from, to))
      #expect(bytes.allSatisfy { $0 == 0x5A }, "\(from) to \(to)")
      free(again)
    }
    let fresh = try #require(realloc(nil, 100))
    memset(fresh, 1, 100)
    #expect(realloc(fresh, 0) == nil)
    free(nil)
  }

  @Test("Code pages that were returned to the system are unmapped, and are loaded again when called")
  func code() throws {
    // Number of resident file pages, the third number.
    func filePages() throws -> Int {
      let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
      return try #require(text.split(separator: " ").dropFirst(2).first.flatMap { Int($0) })
    }
    let before = try filePages()
    let given = ProcessMemory.giveBackCode()
    let after = try filePages()
    #expect(given > 1 << 20 && after < before * 3 / 4, "\(before) pages, then \(after)")
  }

  @Test("`wipeStack` overwrites the stack below the caller, and not the values of the caller")
  func stack() {
    var own = [UInt64](repeating: 7, count: 3)
    withUnsafeMutablePointer(to: &own) { _ in ProcessMemory.wipeStack() }
    let sum = own.reduce(0, +)
    #expect(sum == 21)
  }
}
