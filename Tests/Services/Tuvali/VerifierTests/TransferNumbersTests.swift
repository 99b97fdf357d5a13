import Bytes
import Common
import Hall
import Loop
import Store
import TestSupport
import Testing
import Transfers

@testable import Verifier

@Suite("Numbers of credential transfers")
struct TransferNumbersTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Without an earlier run transfer numbers start at 1")
  func alone() async {
    await LoopActor.run {
      let numbers = TransferNumbers()
      #expect((1...1200).map { _ in numbers.next() } == Array(1...1200))
    }
  }

  @Test("Transfers use reserved numbers, which are renewed in time, and random numbers if there are none")
  func kept() async {
    await LoopActor.run {
      let numbers = TransferNumbers()
      var asked = 0
      numbers.keep(strayFrom: TransferNumbers.strays.lowerBound + 7) { asked += 1 }
      #expect(numbers.next() == (1 << 40) + 7 && numbers.next() == (1 << 40) + 8)
      #expect(asked == 1)
      numbers.add(10..<610)
      #expect((10..<109).map { _ in numbers.next() } == Array(10..<109) && asked == 1)
      // 500 are left.
      #expect(numbers.next() == 109 && asked == 2)
      #expect(numbers.next() == 110 && asked == 2)
      numbers.add(2000..<2002)
      #expect((0..<501).map { _ in numbers.next() } == Array(111..<610) + [2000, 2001] && asked == 3)
      #expect(numbers.next() == (1 << 40) + 9)
    }
  }

  @Test("A restored transfer has its old number, and after crashes no number is used again")
  func restarts() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      var used: Set<Int> = []
      var waiting: [Int: [UInt8]] = [:]
      for run in 1...4 {
        let hall = cabinet.hall(seed: UInt64(run))
        hall.restore()
        let restored = hall.verifier.transfers.transfers
        #expect(Dictionary(uniqueKeysWithValues: restored.map { ($0.number, $0.credential ?? []) }) == waiting)
        for visit in 1...3 {
          _ = try hall.visit(sampleCredential(300, seed: UInt64(10 * run + visit)))
          let transfer = try #require(hall.incoming)
          #expect(transfer.number == (run - 1) * 1000 + visit)
          #expect(used.insert(transfer.number).inserted)
          if visit == run {
            waiting[transfer.number] = transfer.credential
          } else {
            _ = hall.verifier.decide(transfer, accepted: false)
            hall.time.advance(by: .seconds(1))
          }
        }
        cabinet.crash()
      }
    }
  }

  @Test("A disk call that fails while numbers are reserved never makes a number be used again")
  func refilled() async {
    await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall()
      hall.restore()
      let numbers = hall.verifier.transfers.numbers
      let first = (0..<400).map { _ in numbers.next() }
      cabinet.disk.fail { $0.operation.writes ? 28 : nil }
      let second = (0..<700).map { _ in numbers.next() }
      hall.time.advance(by: .seconds(1))
      #expect(hall.verifier.vault.trouble?.reason == .diskFull)
      cabinet.disk.fail(nil)
      hall.time.advance(by: .seconds(61))
      #expect(hall.verifier.vault.trouble == nil)
      let third = (0..<10).map { _ in numbers.next() }
      let all: [Int] = first + Array(second.prefix(600)) + third
      #expect(all == Array(1...1010))
      #expect(second.suffix(100).allSatisfy { TransferNumbers.strays.contains($0) })
      cabinet.crash()
      let again = cabinet.hall()
      again.restore()
      #expect(again.verifier.transfers.numbers.next() == 2001)
    }
  }

  @Test("If the stored last number is damaged or missing, no transfer number is used again", arguments: [true, false])
  func lostNote(isGone: Bool) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      for _ in 0..<2 {
        let hall = cabinet.hall()
        hall.restore()
        _ = try hall.visit(sampleCredential(300))
        cabinet.crash()
      }
      let path = "/state/\(RecordSpool.noteName)"
      if isGone {
        cabinet.disk.move(path, to: "/state/a")
        cabinet.disk.move("\(path).previous", to: "/state/b")
      } else {
        cabinet.disk.change(path) { $0.bytes[50] ^= 1 }
      }
      let hall = cabinet.hall()
      hall.restore()
      // Two credentials of the earlier runs are restored: 1 and 1001.
      #expect(hall.verifier.transfers.transfers.map(\.number) == [1, 1001])
      #expect(hall.verifier.transfers.numbers.next() == (isGone ? 1002 : 2001))
    }
  }

  @Test("If both generations of the stored last number are damaged, numbers start at a random value")
  func noNote() async {
    await LoopActor.run {
      let cabinet = Cabinet()
      for _ in 0..<2 {
        cabinet.hall().restore()
        cabinet.crash()
      }
      for ending in ["", ".previous"] {
        cabinet.disk.change("/state/\(RecordSpool.noteName)\(ending)") { $0.bytes[50] ^= 1 }
      }
      var numbers: [Int] = []
      for _ in 0..<2 {
        let hall = cabinet.hall()
        hall.restore()
        numbers.append(hall.verifier.transfers.numbers.next())
        cabinet.crash()
      }
      #expect(TransferNumbers.strays.contains(numbers[0]) && numbers[1] == numbers[0] + 1000)
    }
  }

  @Test("Without a disk each run of the service uses different transfer numbers")
  func noDisk() async {
    await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.disk.fail { _ in 5 }
      let numbers = (1...3 as ClosedRange<UInt64>).map { seed in
        let hall = cabinet.hall(seed: seed)
        hall.restore()
        return hall.verifier.transfers.numbers.next()
      }
      #expect(Set(numbers).count == 3 && numbers.allSatisfy { TransferNumbers.strays.contains($0) })
    }
  }

  @Test("The stored last number is encoded as its table specifies, and invalid bytes give a named error")
  func noteLayout() throws {
    var note = CredentialStoreNote()
    #expect(note.bytes == [1] + [0, 0, 0, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 8))
    #expect(note.takeBlock() == 1..<1001)
    note.running = 0x0102
    #expect(note.bytes == [1] + [0, 0, 0, 0, 0, 0, 3, 0xE9] + [0, 0, 0, 0, 0, 0, 1, 2])
    #expect(try CredentialStoreNote(reading: note.bytes) == note)
    let wrong: [([UInt8], WireError)] = [
      ([2] + note.bytes.dropFirst(), .badValue("version")),
      ([1] + [UInt8](repeating: 0, count: 16), .badValue("numbers")),
      ([1] + [UInt8](repeating: 0xFF, count: 16), .badValue("numbers")),
    ]
    for (bytes, error) in wrong {
      #expect(throws: error) { try CredentialStoreNote(reading: bytes) }
    }
    #expect(throws: WireError.self) { try CredentialStoreNote(reading: note.bytes + [0]) }
    #expect(throws: WireError.self) { try CredentialStoreNote(reading: note.bytes.dropLast()) }
  }
}
