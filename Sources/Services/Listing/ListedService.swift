import Hosting
import Tool

/// An entry of the list: a service, and what it brings to the command-line tool.
public struct ListedService: Sendable {
  public let kind: any Service.Type
  public let tool: ToolPart

  public init(_ kind: any Service.Type, tool: ToolPart) {
    self.kind = kind
    self.tool = tool
  }
}
