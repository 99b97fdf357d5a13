import Bitchat
import BitchatWire
import Bytes
import Common
import Crypto

extension Target {
  /// Packets, and the steps before their payloads are read.
  static let bitchat = [
    Target(
      name: "mesh-packet",
      seeds: {
        let vectors = try BitchatVectors.read()
        let wires = vectors.packets.map(\.wire) + vectors.packetsInvalid.map(\.wire)
        return try (wires + vectors.fragments.flatMap(\.fragments)).map { try Hex.decode($0) }
      },
      goals: ["version 1", "version 2", "route", "compressed", "signed"],
      play: packet),
    Target(
      name: "mesh-description",
      seeds: {
        let vectors = try BitchatVectors.read()
        return try vectors.packets.map { try Hex.decode($0.wire) }
          + vectors.dialectDisambiguation.cases.map { row in
            try Packet(
              type: MessageType(rawValue: row.type), timestamp: 1, sender: PeerID(rawValue: 2),
              payload: Hex.decode(row.payload)
            ).encoded()
          }
      },
      run: { bytes in
        let description = PacketDescription(Array(bytes))
        promise(description == PacketDescription(hex: Hex.encode(bytes)), "bytes and digits say the same")
        let names = description.fields.map(\.name)
        promise(Set(names).count == names.count, "a description has each field once")
        let isPacket = taken { try Packet(decoding: Array(bytes)) } != nil
        promise(isPacket == !names.contains("error"), "what is no packet is said to be none")
      }),
    Target(
      name: "mesh-meaning",
      seeds: {
        try BitchatVectors.read().dialectDisambiguation.cases.map { try [$0.type, 0] + Hex.decode($0.payload) }
      },
      run: { bytes in
        var script = Script(bytes)
        let type = MessageType(rawValue: script.byte())
        let flags = script.byte()
        let state = PacketMeaning.SeedState(awaitsHandshakeResponse: flags & 1 == 1, hasSession: flags & 2 == 2)
        let payload = Array(bytes.dropFirst(2))
        let meaning = PacketMeaning(type: type, payload: payload, state: state)
        switch meaning {
        case .fragment, .seedFragment, .fragment2025:
          promise(taken { try Fragment(reading: payload) } != nil, "what is called a fragment is one")
        case .seedMessage: promise(taken { try SeedMessage(reading: payload) } != nil, "a message is one")
        case .seedCiphertext: promise(state.hasSession, "ciphertext has a session")
        default: break
        }
      }),
    Target(
      name: "mesh-assembler",
      seeds: {
        try BitchatVectors.read().fragments.map { row in
          try row.fragments.flatMap { wire in
            let payload = try Packet(decoding: Hex.decode(wire)).payload
            return [1, 1, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)] + payload
          }
        }
      },
      goals: ["complete", "abandoned"],
      play: assemble),
  ]

  private static func packet(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    var reached: Set<String> = []
    guard let view = taken({ try PacketView(Array(bytes)) }) else { return reached }
    promise(view.count <= bytes.count, "a packet ends where its bytes do, or before")
    promise(view.relayed(timeToLive: view.timeToLive).elementsEqual(bytes), "a packet is relayed as it came")
    promise(view.signingPreimage.count >= 22, "a preimage is a packet")
    guard let packet = taken({ try Packet(view) }) else { return reached }
    promise(packet.payload.count <= Limits.payloadBytes, "a payload is within its limit")
    if packet.version == .v1 { reached.insert("version 1") } else { reached.insert("version 2") }
    if !packet.route.isEmpty { reached.insert("route") }
    if view.flags.contains(.compressed) { reached.insert("compressed") }
    if packet.signature != nil { reached.insert("signed") }
    // A payload that was compressed may be too long for version 1 when it no longer is.
    if let again = taken({ try packet.encoded() }) {
      promise(taken { try Packet(decoding: again) } == packet, "a packet is read as it was written")
    } else {
      promise(packet.version == .v1 && view.flags.contains(.compressed), "a packet is written again")
    }
    var random = SeededRandom(seed: 1)
    let hash = KeyedHash(randomFrom: &random)
    let moved = taken { try PacketView(view.relayed(timeToLive: 1)) }
    promise(moved?.wireKey(hash) == view.wireKey(hash), "a relayed packet has the same key")
    promise(moved?.signingPreimage == view.signingPreimage, "a relayed packet has the same preimage")
    if let key = taken({ try Ed25519.PublicKey([UInt8](repeating: 9, count: 32)) }) {
      let check = SignatureCheck(view, decoded: packet, key: key)
      promise((0...4).contains(check.computed), "a signature is computed four times at most")
    }
    return reached
  }

  /// A sender, the seconds that pass, and a fragment after its length.
  private static func assemble(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    var script = Script(bytes)
    var bounds = FragmentAssembler.Bounds()
    (bounds.sets, bounds.setsPerSender, bounds.setBytes, bounds.bytes) = (4, 2, 2000, 4000)
    var assembler = FragmentAssembler(bounds: bounds)
    var now = Instant.zero
    var reached: Set<String> = []
    while !script.isAtEnd {
      let sender = PeerID(rawValue: UInt64(script.byte()))
      now = now.advanced(by: .seconds(Int(script.byte())))
      guard let fragment = taken({ try Fragment(reading: script.bytes(script.u16())) }) else { continue }
      if case .complete(let packet) = assembler.add(fragment, from: sender, at: now) {
        promise(packet.count <= bounds.setBytes, "a packet is within its limit")
        reached.insert("complete")
      }
      promise(assembler.count <= bounds.sets, "there are no more sets than allowed")
      promise((0...bounds.bytes + 200).contains(assembler.bytes), "no more is kept than allowed")
      promise((assembler.count == 0) == (assembler.deadline == nil), "what is under way has a deadline")
    }
    if assembler.abandoned > 0 { reached.insert("abandoned") }
    return reached
  }
}
