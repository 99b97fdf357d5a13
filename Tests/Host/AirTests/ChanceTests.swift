import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct ChanceTests {
  /// The events of two nodes that exchange 300 commands and 300 notifications over a lossy link.
  @LoopActor
  private static func trace(seed: UInt64) throws -> [String] {
    let pair = try Pair(
      AirConditions(commandLoss: 0.1, notificationLoss: 0.1, reorder: 0.1, duplicate: 0.1), seed: seed)
    var lines: [String] = []
    pair.recorder.onCall = {
      pair.recorder.calls.last.map { lines.append("\(pair.time.now.nanoseconds) \($0)") }
    }
    pair.client.onEvent = { lines.append("\(pair.time.now.nanoseconds) \($0)") }
    try pair.link.subscribe(to: report)
    pair.settle()
    for number in 0..<300 {
      try pair.link.write(value(number), to: submit, as: .command)
      try pair.server.notify(value(number), of: report, to: pair.serverLink)
    }
    pair.settle()
    return lines
  }

  @Test("The simulated radio gives the same events and times for the same seed, and different ones for another seed")
  func determinism() async throws {
    try await onLoop {
      let first = try Self.trace(seed: 7)
      #expect(first.count > 600)
      #expect(try Self.trace(seed: 7) == first)
      #expect(try Self.trace(seed: 8) != first)
    }
  }

  @Test("The simulated radio's random generator gives the numbers of SplitMix64")
  func generator() {
    // The first values of SplitMix64 for the seed 1234567, as published by its authors.
    var generator = SplitMix64(seed: 1_234_567)
    #expect(generator.next() == 6_457_827_717_110_365_317)
    #expect(generator.next() == 3_203_168_211_198_807_973)
    #expect(generator.next() == 9_817_491_932_198_370_423)
  }

  @Test(
    "The simulated radio loses packets at the rate configured for each direction", arguments: [0.0, 0.05, 0.3, 1.0])
  func loss(rate: Double) async throws {
    try await onLoop {
      let pair = try Pair(
        AirConditions(latency: .zero, commandLoss: rate, notificationLoss: 1 - rate, deliverUnsubscribed: true))
      let count = 10_000
      for number in 0..<count {
        try pair.link.write(value(number), to: submit, as: .command)
        try pair.server.notify(value(number), of: report, to: pair.serverLink)
      }
      pair.settle()
      // Four standard deviations of a binomial distribution.
      let slack = 4 * (Double(count) * rate * (1 - rate)).squareRoot()
      #expect(abs(Double(count - pair.recorder.values.count) - rate * Double(count)) <= slack)
      #expect(abs(Double(pair.client.notified.count) - rate * Double(count)) <= slack)
      #expect(pair.client.written.count == count)
    }
  }

  @Test("The simulated radio never loses write requests or their answers by random loss")
  func reliable() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(commandLoss: 1, notificationLoss: 1, reorder: 1, duplicate: 1))
      for number in 0..<100 { try pair.link.write(value(number), to: submit, as: .request) }
      pair.settle()
      #expect(numbers(pair.recorder.values) == Array(0..<100))
    }
  }

  @Test("Reordered values arrive at most one position late on the simulated radio, and none is lost")
  func reordering() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(reorder: 0.2))
      for number in 0..<5000 { try pair.link.write(value(number), to: submit, as: .command) }
      pair.settle()
      let seen = numbers(pair.recorder.values)
      #expect(seen.sorted() == Array(0..<5000))
      let overtaken = zip(seen, seen.dropFirst()).count { $0 > $1 }
      #expect((700...1000).contains(overtaken))
      #expect(zip(seen, 0...).allSatisfy { abs($0 - $1) <= 1 })
      pair.air.conditions.reorder = 1
      try pair.link.write([1, 2, 3], to: submit, as: .command)
      pair.settle()
      #expect(pair.recorder.values.last == [1, 2, 3])
    }
  }

  @Test("A value that the simulated radio duplicates arrives twice in succession")
  func duplicating() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(duplicate: 1))
      for number in 0..<3 { try pair.link.write(value(number), to: submit, as: .command) }
      pair.settle()
      #expect(numbers(pair.recorder.values) == [0, 0, 1, 1, 2, 2])
    }
  }

  @Test("A packet filter of the simulated radio can drop, duplicate, delay and corrupt single packets")
  func filter() async throws {
    try await onLoop {
      let pair = try Pair(
        AirConditions(
          latency: .milliseconds(10),
          filter: { packet in
            guard packet.kind == .command else { return .deliver }
            switch packet.number {
            case 1: return .drop
            case 2: return .duplicate
            case 3: return .delay(.milliseconds(15))
            case 5: return .corrupt([9])
            default: return .deliver
            }
          }))
      for number in 0..<7 { try pair.link.write([UInt8(number)], to: submit, as: .command) }
      pair.settle()
      #expect(pair.recorder.values == [[0], [2], [2], [4], [3], [9], [6]])
    }
  }

  @Test("A packet filter of the simulated radio gets kind, sender, receiver, link and value of each packet")
  func packets() async throws {
    try await onLoop {
      let seen = Seen()
      let pair = try Pair(
        AirConditions(
          deliverUnsubscribed: true,
          filter: {
            seen.packets.append($0)
            return .deliver
          }))
      let (here, there) = (pair.central.address, pair.peripheral.address)
      let link = try pair.link.id
      try pair.link.write([1], to: submit, as: .command)
      try pair.link.write([2], to: submit, as: .request)
      try pair.server.notify([3], of: report, to: pair.serverLink)
      pair.settle()
      #expect(
        seen.packets == [
          AirPacket(kind: .command, from: here, to: there, link: link, characteristic: submit, value: [1], number: 0),
          AirPacket(kind: .request, from: here, to: there, link: link, characteristic: submit, value: [2], number: 1),
          AirPacket(
            kind: .notification, from: there, to: here, link: link, characteristic: report, value: [3], number: 0),
        ])
    }
  }

  @Test("Loss conditions set for two nodes override those of the whole radio channel")
  func pairs() async throws {
    try await onLoop {
      let pair = try Pair()
      let (one, two) = (pair.central.address, pair.peripheral.address)
      pair.air.setConditions(AirConditions(commandLoss: 1), between: two, and: one)
      try pair.link.write([1], to: submit, as: .command)
      pair.settle()
      #expect(pair.recorder.values.isEmpty)
      pair.air.setConditions(nil, between: one, and: two)
      try pair.link.write([2], to: submit, as: .command)
      pair.settle()
      #expect(pair.recorder.values == [[2]])
    }
  }

  @LoopActor
  private final class Seen {
    var packets: [AirPacket] = []
  }
}
