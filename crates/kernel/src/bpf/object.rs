//! A compiled BPF object as data: programs, maps and constants. The loader and the tracer use the same one.
//!
//! Maps are plain structures in the section `maps`, constants are in `.rodata`. There is no type information in the object and
//! none is needed.

use std::collections::BTreeMap;

use super::elf::{File, InvalidObject, Section, Symbol};
use super::instruction::{self, Instruction};

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Object {
    pub programs: Vec<Code>,
    pub maps: Vec<MapDefinition>,
    /// The content of the section `.rodata`.
    pub rodata: Vec<u8>,
    pub constants: Vec<Constant>,
    /// The kernel functions that the programs call.
    pub functions: Vec<String>,
    pub license: String,
}

/// A program before it is loaded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Code {
    pub name: String,
    /// The name of the section, which says where the program is attached: `cgroup/connect4`.
    pub section: String,
    pub instructions: Vec<Instruction>,
    /// What instructions refer to, by their index.
    pub references: BTreeMap<usize, Reference>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference {
    /// An index into the maps of the object.
    Map(usize),
    /// An offset into the constants.
    Rodata(u32),
    /// An index into the kernel functions of the object.
    Function(usize),
}

/// `struct map_definition` of `bpf/common.h`, with the name of its symbol.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MapDefinition {
    pub name: String,
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constant {
    pub name: String,
    pub offset: usize,
    pub size: usize,
}

impl Object {
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidObject> {
        let file = File::parse(bytes)?;
        let mut object = Self::default();
        for (index, section) in file.sections.iter().enumerate() {
            match section.name.as_str() {
                "maps" => object.maps = read_maps(&file, index, section)?,
                ".rodata" => object.read_constants(&file, index, section),
                "license" => object.license = text(section.data),
                _ => {}
            }
        }
        for (index, section) in file.sections.iter().enumerate().filter(|(_, section)| section.is_code) {
            let program = object.read_program(&file, index, section)?;
            object.programs.extend(program);
        }
        Ok(object)
    }

    pub fn program(&self, name: &str) -> Option<&Code> {
        self.programs.iter().find(|program| program.name == name)
    }

    pub fn map(&self, name: &str) -> Option<&MapDefinition> {
        self.maps.iter().find(|map| map.name == name)
    }

    /// The bytes of the constants with these values; the others keep theirs.
    pub fn rodata_with(&self, values: &[(&str, u64)]) -> Result<Vec<u8>, InvalidObject> {
        let mut rodata = self.rodata.clone();
        for (name, value) in values {
            let unknown = || InvalidObject(format!("it has no constant {name}"));
            let constant = self.constants.iter().find(|it| it.name == *name).ok_or_else(unknown)?;
            let range = constant.offset..constant.offset.saturating_add(constant.size);
            let bytes = value.to_le_bytes();
            let place = rodata.get_mut(range).filter(|place| place.len() <= bytes.len()).ok_or_else(unknown)?;
            let (low, high) = bytes.split_at(place.len());
            if high.iter().any(|byte| *byte != 0) {
                return Err(InvalidObject(format!("the constant {name} is too small for {value}")));
            }
            place.copy_from_slice(low);
        }
        Ok(rodata)
    }

    /// The value of a constant in those bytes.
    pub fn constant(&self, rodata: &[u8], name: &str) -> Option<u64> {
        let constant = self.constants.iter().find(|it| it.name == name)?;
        let bytes = rodata.get(constant.offset..constant.offset.checked_add(constant.size)?)?;
        let mut value = [0; 8];
        value.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(value))
    }

    fn read_constants(&mut self, file: &File<'_>, index: usize, section: &Section<'_>) {
        self.rodata = section.data.to_vec();
        let named = file.symbols_of(index).filter(|symbol| !symbol.name.is_empty());
        self.constants = named
            .map(|symbol| Constant { name: symbol.name.clone(), offset: symbol.value, size: symbol.size })
            .collect();
    }

    /// `None` for a section of code without a function.
    fn read_program(
        &mut self,
        file: &File<'_>,
        index: usize,
        section: &Section<'_>,
    ) -> Result<Option<Code>, InvalidObject> {
        let mut functions = file.symbols_of(index).filter(|symbol| symbol.is_function);
        let Some(function) = functions.next() else { return Ok(None) };
        if function.value != 0 || functions.next().is_some() {
            return Err(InvalidObject(format!("the section {} has more than one function", section.name)));
        }
        let (name, section_name) = (function.name.clone(), section.name.clone());
        let mut code = Code { name, section: section_name, instructions: instructions(section)?, ..Code::default() };
        for relocation in file.relocations_of(index) {
            let index = relocation.offset / instruction::LENGTH;
            let addend = code.instructions.get(index).map_or(0, |instruction| instruction.immediate);
            let reference = self.resolve(file, relocation.symbol, addend)?;
            code.references.insert(index, reference);
        }
        code.check_references()?;
        Ok(Some(code))
    }

    fn resolve(&mut self, file: &File<'_>, symbol: usize, addend: i32) -> Result<Reference, InvalidObject> {
        let unknown = || InvalidObject(format!("a relocation to the unknown symbol {symbol}"));
        let symbol = file.symbols.get(symbol).ok_or_else(unknown)?;
        let home = file.sections.get(symbol.section).map(|section| section.name.as_str());
        match home {
            Some("maps") => self.map_at(symbol).map(Reference::Map),
            Some(".rodata") => {
                let offset = u32::try_from(symbol.value).ok().and_then(|value| value.checked_add_signed(addend));
                offset.map(Reference::Rodata).ok_or_else(unknown)
            }
            Some("") if symbol.section == 0 && !symbol.name.is_empty() => Ok(self.function(&symbol.name)),
            _ => Err(InvalidObject(format!("a relocation to {} in the section {home:?}", symbol.name))),
        }
    }

    fn map_at(&self, symbol: &Symbol) -> Result<usize, InvalidObject> {
        let place = self.maps.iter().position(|map| map.name == symbol.name);
        place.ok_or_else(|| InvalidObject(format!("a relocation to the unknown map {}", symbol.name)))
    }

    fn function(&mut self, name: &str) -> Reference {
        let known = self.functions.iter().position(|it| it == name);
        Reference::Function(known.unwrap_or_else(|| {
            self.functions.push(name.to_owned());
            self.functions.len() - 1
        }))
    }
}

impl Code {
    /// Maps and constants are loaded by instructions of two, functions are called.
    fn check_references(&self) -> Result<(), InvalidObject> {
        for (index, reference) in &self.references {
            let wanted = match reference {
                Reference::Map(_) | Reference::Rodata(_) => instruction::LOAD_64,
                Reference::Function(_) => instruction::CALL,
            };
            let is_wanted = self.instructions.get(*index).is_some_and(|it| it.opcode == wanted);
            let is_whole = wanted != instruction::LOAD_64 || self.instructions.len() > index + 1;
            if !is_wanted || !is_whole {
                return Err(InvalidObject(format!("a relocation of the instruction {index} of {}", self.name)));
            }
        }
        Ok(())
    }
}

fn instructions(section: &Section<'_>) -> Result<Vec<Instruction>, InvalidObject> {
    let (whole, rest) = section.data.as_chunks::<{ instruction::LENGTH }>();
    if whole.is_empty() || !rest.is_empty() {
        return Err(InvalidObject(format!("the section {} has {} bytes", section.name, section.data.len())));
    }
    Ok(whole.iter().map(|bytes| Instruction::decode(*bytes)).collect())
}

fn read_maps(file: &File<'_>, index: usize, section: &Section<'_>) -> Result<Vec<MapDefinition>, InvalidObject> {
    let named = file.symbols_of(index).filter(|symbol| !symbol.name.is_empty());
    let mut symbols: Vec<&Symbol> = named.collect();
    symbols.sort_by_key(|symbol| symbol.value);
    let read = |symbol: &&Symbol| read_map(symbol, section.data.get(symbol.value..)?);
    let maps: Option<Vec<MapDefinition>> = symbols.iter().map(read).collect();
    maps.ok_or_else(|| InvalidObject("a map is cut off".to_owned()))
}

fn read_map(symbol: &Symbol, data: &[u8]) -> Option<MapDefinition> {
    let (numbers, _) = data.get(..20)?.as_chunks::<4>();
    let [kind, key_size, value_size, max_entries, flags] = *numbers else { return None };
    Some(MapDefinition {
        name: symbol.name.clone(),
        kind: u32::from_le_bytes(kind),
        key_size: u32::from_le_bytes(key_size),
        value_size: u32::from_le_bytes(value_size),
        max_entries: u32::from_le_bytes(max_entries),
        flags: u32::from_le_bytes(flags),
    })
}

/// The text before the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
