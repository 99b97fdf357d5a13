import Bytes

/// A protocol data unit, the content of a connection's segments. Facts: asn.md section 4
///
///     version       1, always 0
///     id            1
///     requester     8, or "asnmagic" in a blob
///     ...           by id
public enum PDU: Hashable, Sendable {
  case acknowledge(Acknowledgement)
  /// A command: arguments and input as on the wire. `Command` decodes them.
  case exec(Requester, ArraySlice<UInt8>)
  case login(Requester, user: UserKey, signature: [UInt8])
  case pause(Requester)
  case quit(Requester)
  case redirect(Requester, url: String)
  case resume(Requester)
  case blob(Blob)

  /// Number of octets before the data of a request.
  static let header = 10
  static let signature = 64

  /// Types of PDUs in version 0 of the protocol.
  public enum Identifier: UInt8, Sendable, CaseIterable {
    case acknowledge = 1
    case exec, login, pause, quit, redirect, resume, blob
  }

  public var identifier: Identifier {
    switch self {
    case .acknowledge: .acknowledge
    case .exec: .exec
    case .login: .login
    case .pause: .pause
    case .quit: .quit
    case .redirect: .redirect
    case .resume: .resume
    case .blob: .blob
    }
  }

  /// Decodes a PDU from all of its octets.
  public init(_ bytes: [UInt8], dialect: Dialect) throws(PDUError) {
    var reader = ByteReader(bytes)
    guard let version = try? reader.u8(), let id = try? reader.u8() else { throw .short }
    guard version == 0 else { throw .version(version) }
    guard let identifier = Identifier(rawValue: id) else { throw .unknown(id) }
    if identifier == .blob {
      do throws(WireError) {
        self = .blob(try Blob(bytes))
      } catch {
        throw .blob(error)
      }
      return
    }
    do throws(WireError) {
      let requester = Requester(try reader.bytes(Requester.size))
      self = try Self.request(identifier, requester, &reader, dialect)
    } catch .truncated {
      throw .short
    } catch {
      throw .illFormatted
    }
  }

  private static func request(
    _ identifier: Identifier, _ requester: Requester, _ reader: inout ByteReader, _ dialect: Dialect
  ) throws(WireError) -> PDU {
    switch identifier {
    case .acknowledge: return .acknowledge(try Acknowledgement(requester, reading: &reader, dialect: dialect))
    case .exec: return .exec(requester, reader.rest())
    case .login:
      let user = try UserKey(reading: &reader)
      let signature = Array(try reader.bytes(PDU.signature))
      try reader.finish()
      return .login(requester, user: user, signature: signature)
    case .redirect:
      guard let url = String(validating: reader.rest(), as: UTF8.self) else { throw .badValue("url") }
      return .redirect(requester, url: url)
    case .pause, .quit, .resume, .blob:
      try reader.finish()
      return identifier == .pause ? .pause(requester) : identifier == .quit ? .quit(requester) : .resume(requester)
    }
  }

  /// Returns the octets of the encoded PDU.
  public func bytes(dialect: Dialect) -> [UInt8] {
    var writer = ByteWriter(capacity: 128)
    switch self {
    case .blob(let blob): return blob.bytes
    case .acknowledge(let acknowledgement):
      begin(&writer, acknowledgement.requester)
      acknowledgement.write(to: &writer, dialect: dialect)
    case .exec(let requester, let command):
      begin(&writer, requester)
      writer.append(command)
    case .login(let requester, let user, let signature):
      begin(&writer, requester)
      writer.append(user.bytes)
      writer.append(signature)
    case .redirect(let requester, let url):
      begin(&writer, requester)
      writer.append(url.utf8)
    case .pause(let requester), .quit(let requester), .resume(let requester): begin(&writer, requester)
    }
    return writer.bytes
  }

  private func begin(_ writer: inout ByteWriter, _ requester: Requester) {
    writer.u8(0)
    writer.u8(identifier.rawValue)
    writer.append(requester.bytes)
  }

  /// The requester of the PDU; `none` for a blob, which has no answer.
  public var requester: Requester {
    switch self {
    case .acknowledge(let acknowledgement): acknowledgement.requester
    case .exec(let requester, _), .login(let requester, _, _), .pause(let requester), .quit(let requester),
      .redirect(let requester, _), .resume(let requester):
      requester
    case .blob: .none
    }
  }

  /// The requester of any PDU, for an acknowledgement that refuses it. Missing octets are 0.
  public static func requester(of bytes: [UInt8]) -> Requester { Requester(bytes.dropFirst(2)) }
}

/// The fault of a malformed PDU. Each of these ends the connection.
public enum PDUError: Error, Hashable, Sendable {
  case version(UInt8)
  case unknown(UInt8)
  /// The PDU ends before its last field.
  case short
  /// A field has a value that is not allowed, or octets follow the last field.
  case illFormatted
  /// The blob has no magic, or its name exceeds the PDU.
  case blob(WireError)

  /// The result that is sent to the peer; nil if the connection is closed without one.
  public var result: ResultCode? {
    switch self {
    case .version: .incompatible
    case .unknown: .unknown
    case .short: .short
    case .illFormatted: .illFormatted
    case .blob: nil
    }
  }
}

/// The answer to a request.
///
///     requester     8, repeated
///     time          8, nanoseconds since 1970, in the dialect of 2015 only
///     result        1
///     data          the rest: a sentence if the result is not 0
public struct Acknowledgement: Hashable, Sendable {
  public var requester: Requester
  /// Time of the answer, in nanoseconds since 1970; nil in the dialect `seed`, which does not send it.
  public var time: UInt64?
  public var result: ResultCode
  public var data: [UInt8]

  public init(_ requester: Requester, _ result: ResultCode = .success, data: [UInt8] = [], time: UInt64? = nil) {
    (self.requester, self.time, self.result, self.data) = (requester, time, result, data)
  }

  /// Makes a refusal with a sentence.
  public init(refusing requester: Requester, _ result: ResultCode, _ sentence: String? = nil) {
    self.init(requester, result, data: Array((sentence ?? result.sentence).utf8))
  }

  /// The answer's data decoded as UTF-8 text.
  public var text: String { String(decoding: data, as: UTF8.self) }

  init(_ requester: Requester, reading reader: inout ByteReader, dialect: Dialect) throws(WireError) {
    self.requester = requester
    time = dialect == .year2015 ? try reader.u64be() : nil
    guard let result = ResultCode(rawValue: try reader.u8()) else { throw .badValue("result") }
    self.result = result
    data = Array(reader.rest())
  }

  func write(to writer: inout ByteWriter, dialect: Dialect) {
    if dialect == .year2015 { writer.u64be(time ?? 0) }
    writer.u8(result.rawValue)
    writer.append(data)
  }
}

/// A command with its arguments, and perhaps input. Facts: asn.md section 5
///
/// The arguments are joined by one NUL. The first argument that equals `-` ends them. The input follows its NUL in the
/// dialect `seed`, and NUL NUL in that of 2015.
public struct Command: Hashable, Sendable {
  /// The name of the command and its arguments, without the `-`.
  public var arguments: [String]
  /// The octets after the arguments; nil if there was no `-`.
  public var input: [UInt8]?

  public init(_ arguments: [String], input: [UInt8]? = nil) {
    (self.arguments, self.input) = (arguments, input)
  }

  /// Reads the data of an exec request.
  ///
  /// Throws `badValue` for an empty command and for arguments that are not UTF-8, `tooLong` for more than 64 KiB or
  /// more than 256 arguments.
  public init(reading bytes: ArraySlice<UInt8>, dialect: Dialect) throws(WireError) {
    var (arguments, unread): ([String], ArraySlice<UInt8>) = ([], bytes)
    var input: [UInt8]?
    var isLast = false
    while !isLast {
      let end = unread.prefix(Limits.argumentBytes + 1).firstIndex(of: 0)
      isLast = end == nil
      let token = unread[unread.startIndex..<(end ?? unread.endIndex)]
      let used = (end ?? unread.endIndex) - bytes.startIndex
      guard used <= Limits.argumentBytes else { throw .tooLong(field: "arguments", limit: Limits.argumentBytes) }
      unread = unread[(end.map { $0 + 1 } ?? unread.endIndex)...]
      if token.elementsEqual([UInt8(ascii: "-")]) {
        if dialect == .year2015, unread.first == 0 { unread.removeFirst() }
        (input, isLast) = (Array(unread), true)
        break
      }
      // In the dialect of 2015 NUL NUL ends the arguments, with a `-` or without.
      if dialect == .year2015, token.isEmpty, !arguments.isEmpty, !isLast {
        input = Array(unread)
        break
      }
      guard arguments.count < Limits.arguments else { throw .tooLong(field: "arguments", limit: Limits.arguments) }
      guard let argument = String(validating: token, as: UTF8.self) else { throw .badValue("argument") }
      arguments.append(argument)
    }
    guard let name = arguments.first, !name.isEmpty else { throw .badValue("command") }
    self.init(arguments, input: input)
  }

  /// The data of an exec request.
  public func bytes(dialect: Dialect) -> [UInt8] {
    var bytes = Array(arguments.joined(separator: "\0").utf8)
    guard let input else { return bytes }
    bytes += [0, UInt8(ascii: "-"), 0]
    if dialect == .year2015 { bytes.append(0) }
    return bytes + input
  }
}
