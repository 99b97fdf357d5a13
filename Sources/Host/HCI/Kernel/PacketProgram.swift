import Bytes
import Glibc

/// A program for the kernel's classic packet filter (BPF). The kernel runs it for each packet of a socket, and drops
/// packets that it does not admit, so that they do not wake this program.
struct PacketProgram: Hashable, Sendable {
  /// One instruction, `struct sock_filter` of <linux/filter.h>.
  struct Instruction: Hashable, Sendable {
    var code: UInt16
    /// Instructions to skip if a comparison is true, and if it is false.
    var ifTrue: UInt8 = 0
    var ifFalse: UInt8 = 0
    var operand: UInt32

    /// Loads the byte at an offset of the packet. A packet that is too short is dropped.
    static func byte(_ offset: UInt32) -> Self { Self(code: 0x30, operand: offset) }
    /// Loads two bytes, big endian.
    static func half(_ offset: UInt32) -> Self { Self(code: 0x28, operand: offset) }
    /// Loads the length of the packet.
    static let length = Self(code: 0x80, operand: 0)
    static func and(_ mask: UInt32) -> Self { Self(code: 0x54, operand: mask) }
    static func isEqual(to value: UInt32, then ifTrue: UInt8, else ifFalse: UInt8) -> Self {
      Self(code: 0x15, ifTrue: ifTrue, ifFalse: ifFalse, operand: value)
    }
    static let admit = Self(code: 0x06, operand: .max)
    static let drop = Self(code: 0x06, operand: 0)
  }

  var instructions: [Instruction]

  /// The encoded instructions, eight bytes each.
  var words: [UInt64] {
    instructions.map {
      UInt64($0.code) | UInt64($0.ifTrue) << 16 | UInt64($0.ifFalse) << 24 | UInt64($0.operand) << 32
    }
  }
}

extension HCISocket {
  // SO_ATTACH_FILTER of <asm-generic/socket.h>.
  private static let attachFilter: Int32 = 26

  /// Makes the kernel drop packets that `program` does not admit.
  func admit(_ program: PacketProgram) throws(HCIError) {
    let status = program.words.withUnsafeBufferPointer { words in
      // `struct sock_fprog`: the number of instructions, and their address.
      let argument = [UInt64(words.count), UInt64(UInt(bitPattern: words.baseAddress))]
      return argument.withUnsafeBytes {
        setsockopt(descriptor, SOL_SOCKET, Self.attachFilter, $0.baseAddress, socklen_t($0.count))
      }
    }
    guard status == 0 else { throw HCIError(errno, in: "setsockopt") }
  }
}

/// The packets that the kernel passes to a raw socket (`struct hci_ufilter`): events by code, the answers to the
/// commands of one opcode, and data.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 4 | packet types, one bit each: ACL data is type 2, events are type 4 |
/// | 4 | 8 | events, one bit each |
/// | 12 | 2 | opcode whose Command Complete and Command Status pass; 0 for those of all opcodes |
/// | 14 | 2 | padding |
public struct HCIFilter: Hashable, Sendable {
  /// Codes of the events that pass; only codes below 64 can be selected.
  public var events: Set<UInt8>
  public var opcode: UInt16
  /// Whether ACL data packets pass, in both directions.
  public var passesData: Bool

  /// The filter that passes nothing.
  public static let nothing = HCIFilter(events: [])

  public init(events: Set<UInt8>, opcode: UInt16 = 0, passesData: Bool = false) {
    self.events = events
    self.opcode = opcode
    self.passesData = passesData
  }

  var bytes: [UInt8] {
    let events = events.filter { $0 < 64 }
    var writer = ByteWriter(capacity: 16)
    writer.u32le((events.isEmpty ? 0 : 1 << 4) | (passesData ? 1 << 2 : 0))
    for half in 0..<2 as Range<UInt8> {
      writer.u32le(events.filter { $0 / 32 == half }.reduce(0) { $0 | 1 << UInt32($1 % 32) })
    }
    writer.u16le(opcode)
    writer.u16le(0)
    return writer.bytes
  }
}
