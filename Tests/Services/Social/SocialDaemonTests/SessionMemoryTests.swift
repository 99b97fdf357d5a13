import ASN
import Testing

@testable import SocialDaemon

@Suite("Memory limits of social server sessions on D-Bus")
struct SessionMemoryTests {
  private func blob(_ number: UInt8, octets: Int) throws -> Blob {
    let key = try UserKey([UInt8](repeating: 1, count: 32))
    return Blob(
      owner: key, author: key, epoch: 1, name: .message, content: [UInt8](repeating: number, count: octets),
      random: [UInt8](repeating: number, count: 32))
  }

  @Test("Up to 64 blobs of a session, the last ones and at most 32 MiB, wait for its program")
  func blobs() throws {
    var (memory, arrived) = (SessionMemory(), ArrivedBlobs())
    let small = try (0..<65).map { try blob(UInt8($0), octets: 10) }
    let added = small.filter { arrived.add($0, other: 0, &memory) }
    #expect(added == small)
    #expect(arrived.blob(small[0].sum.hex) == nil && arrived.blob(small[1].sum.hex) != nil)
    let large = try (100..<104).map { try blob($0, octets: 12 << 20) }
    let addedLarge = large.filter { arrived.add($0, other: 0, &memory) }
    #expect(addedLarge == large)
    #expect(arrived.bytes <= SessionMemory.share && memory.used == arrived.bytes)
    #expect(arrived.blob(large[1].sum.hex) == nil && arrived.blob(large[3].sum.hex) != nil)
    arrived.remove(large[3].sum, &memory)
    #expect(arrived.blob(large[3].sum.hex) == nil)
    arrived.removeAll(&memory)
    #expect(memory.used == 0 && arrived.bytes == 0)
  }

  @Test("Requests and blobs count towards one session limit, and all sessions together have a limit")
  func total() throws {
    var memory = SessionMemory()
    var sessions = [ArrivedBlobs](repeating: ArrivedBlobs(), count: 16)
    let large = try blob(1, octets: 15 << 20)
    let isAdded = sessions[0].add(large, other: 20 << 20, &memory)
    #expect(!isAdded)
    var added = 0
    for index in sessions.indices where sessions[index].add(large, other: 0, &memory) { added += 1 }
    #expect(added == 8 && memory.used <= SessionMemory.total)
    let isTaken = memory.take(10 << 20, own: 0)
    sessions[0].removeAll(&memory)
    let isTakenThen = memory.take(10 << 20, own: 0)
    #expect(!isTaken && isTakenThen)
  }
}
